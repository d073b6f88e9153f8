"""vLLM as the sampler of the local engine: a process of its own that gets the weights after every update."""
