"""What the model reads and writes: screen text, chat messages, and the one-line actions it answers with."""
