"""Phones for agents: the embedded one, and real ones over adb. Does not import `mobilerl`."""
