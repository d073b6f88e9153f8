"""Two-stage supervised fine-tuning: demonstrations, bootstrapped reasoning, training with the Hugging Face Trainer."""

if __name__ == "sft":
    from mobilerl.system.short_names import alias

    alias("sft")
