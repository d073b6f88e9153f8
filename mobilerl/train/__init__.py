"""Training: the online loop, checkpoints, tracking."""
