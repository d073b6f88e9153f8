"""Readers of recorded demonstrations for the warm-up: public data sets and our own runs (docs/data.md).

`sft.sources.stream` puts them together; everything else here is one step on the way to it.
"""
