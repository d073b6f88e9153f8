"""The embedded phone and its tasks."""
