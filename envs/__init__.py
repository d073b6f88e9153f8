"""Phones for agents: the embedded one, and real ones over adb. Does not import `mobilerl`."""

if __name__ == "envs":  # in a clone; PyPI has a package of this name
    raise ImportError("this package is imported as mobilerl.envs", name=__name__)
