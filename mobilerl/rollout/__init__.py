"""Playing episodes: one at a time, and many groups of them over a pool of devices."""
