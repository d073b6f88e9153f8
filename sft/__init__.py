"""Two-stage supervised fine-tuning: demonstrations, bootstrapped reasoning, training with the Hugging Face Trainer."""

if __name__ == "sft":
    raise ImportError("import mobilerl.sft instead of sft", name="sft")
