"""AndroidLab; see docs/benchmarks.md."""
