"""Checks whether this machine has what a recipe needs. Every check ends within seconds."""
