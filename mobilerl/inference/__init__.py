"""Who answers a prompt: the training process, vLLM, or an OpenAI-compatible endpoint."""
