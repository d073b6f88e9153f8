"""Phones an agent can use: the embedded one, and (through adb) real ones. Knows nothing of `mobilerl`."""
