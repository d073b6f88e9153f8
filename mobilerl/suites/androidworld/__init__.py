"""AndroidWorld; see docs/benchmarks.md."""
