"""Phones for agents: the embedded one, and real ones over adb. Does not import `mobilerl`."""

if __name__ == "envs":
    raise ImportError("import mobilerl.envs instead of envs", name="envs")
