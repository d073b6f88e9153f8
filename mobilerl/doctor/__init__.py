"""What this machine lacks for a recipe: a few checks, each of which ends within seconds."""
