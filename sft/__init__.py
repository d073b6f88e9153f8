"""Two-stage supervised fine-tuning: demonstrations, bootstrapped reasoning, training with the Hugging Face Trainer."""

if __name__ == "sft":  # in a clone; PyPI has a package of this name
    raise ImportError("this package is imported as mobilerl.sft", name=__name__)
