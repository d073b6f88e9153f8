"""Apps and tasks generated from seeds, without limit, to train on screens that have to be read."""
