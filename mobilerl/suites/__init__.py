"""Suites: where tasks come from, the devices they run on, and how an agent is evaluated on them."""
