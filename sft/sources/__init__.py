"""Readers of recorded demonstrations for SFT: public data sets and our own runs (docs/data.md)."""
