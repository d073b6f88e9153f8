"""The suite `androidworld`: docs/androidworld.md."""
