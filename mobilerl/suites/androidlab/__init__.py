"""AndroidLab: docs/androidlab.md."""
