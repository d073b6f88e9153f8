"""Apps and tasks made from a seed, on embedded phones."""
