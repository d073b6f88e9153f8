"""Rollouts: single episodes, and groups of episodes on a pool of devices."""
