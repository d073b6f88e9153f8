"""Suites: sources of tasks, the devices that they run on, and evaluation on them."""
