"""The engine on many GPUs: verl's workers learn under FSDP, vLLM samples, Ray holds them together."""
