"""The mathematics of the papers: pure functions and small state machines, without I/O or model code.

All engines call these functions; none has its own copy of a formula. `replay` and `curriculum` load without torch.
"""
