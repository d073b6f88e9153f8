"""MiniWoB++, whose tasks are pages of the package `miniwob`."""
