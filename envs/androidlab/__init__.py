"""AndroidLab: its tasks and judges from a checkout of the public repository, played on devices over adb."""
