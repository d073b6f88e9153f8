"""The judge: a vision-language model that decides from an episode's end whether the task was completed."""
