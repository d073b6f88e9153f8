"""AndroidWorld: docs/androidworld.md."""
