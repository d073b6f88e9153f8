"""Every algorithm and ablation on one budget: what `recipes/compare.sh` runs and reports."""
