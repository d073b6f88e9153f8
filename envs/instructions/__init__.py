"""Your own instructions on your own app: docs/instructions.md."""
