"""Checks whether this machine has what a recipe needs. Each check ends within seconds."""
