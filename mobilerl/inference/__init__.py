"""Sampling from the training process, vLLM, or an OpenAI-compatible endpoint."""
