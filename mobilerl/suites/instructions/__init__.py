"""Instructions of your own: docs/instructions.md."""
