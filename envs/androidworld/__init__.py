"""AndroidWorld as a `MobileEnv`: its HTTP server for set-up and scoring, its phone over adb."""
