"""Apps and tasks generated from a seed, on embedded phones."""
