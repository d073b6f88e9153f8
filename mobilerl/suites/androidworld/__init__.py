"""AndroidWorld; see docs/androidworld.md."""
