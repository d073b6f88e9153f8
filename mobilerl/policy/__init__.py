"""Input and output of the model: screen text, chat messages, and the one-line actions that it responses with."""
