"""Evaluation: runner, journal, statistics and results.json. The suites are in `mobilerl.suites`."""
