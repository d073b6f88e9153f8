"""The papers' mathematics: pure functions and small state machines, without I/O or model code.

Every engine calls these; none keeps its own copy of a formula. `replay` and `curriculum` load without torch.
"""
