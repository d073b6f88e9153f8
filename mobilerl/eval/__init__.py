"""Measuring an agent: suites, statistics and results.json."""
