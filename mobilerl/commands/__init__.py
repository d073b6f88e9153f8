"""One module per command: `add` declares it, `run` carries it out. Heavy imports wait until a command runs."""
