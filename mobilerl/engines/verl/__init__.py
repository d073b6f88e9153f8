"""Engine for many GPUs: verl's workers train under FSDP and vLLM samples, both on a Ray cluster."""
