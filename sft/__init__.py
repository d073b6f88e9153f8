"""Two-stage supervised fine-tuning: demonstrations, bootstrapped reasoning, training with the Hugging Face Trainer."""
