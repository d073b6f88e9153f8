"""Apps and tasks made from a seed: as many as wanted, to train on a world that has to be read."""
