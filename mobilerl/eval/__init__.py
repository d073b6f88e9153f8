"""Evaluation: runner, journal, and results.json. The suites are in `mobilerl.suites`."""
