"""The suite `androidlab`: docs/androidlab.md."""
