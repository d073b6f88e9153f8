"""Tasks from your own instructions; see docs/instructions.md."""
