"""Phones for agents: the embedded one, and real ones over adb. Does not import `mobilerl`."""

if __name__ == "envs":
    from mobilerl.system.short_names import alias

    alias("envs")
