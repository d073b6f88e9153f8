"""Comparison of all algorithms and ablations on the same budget, as run by `recipes/compare.sh`."""
