"""AndroidLab: tasks and judges from a checkout of the public repository, run on devices over adb."""
