"""AndroidWorld: its HTTP server for set-up and scoring, its phone over adb, as a `MobileEnv`."""
