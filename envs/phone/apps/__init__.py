"""The apps on the phone, the launcher first."""
