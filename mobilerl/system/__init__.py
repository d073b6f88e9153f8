"""Files, processes, the network and the terminal; knows nothing of training."""
