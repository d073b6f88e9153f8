"""Two-stage warm-up: demonstrations, a reasoning bootstrap, and training with the Hugging Face Trainer."""
