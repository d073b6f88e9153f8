"""AndroidLab; see docs/androidlab.md."""
