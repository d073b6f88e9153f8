"""Your own instructions for your own app (docs/instructions.md)."""
