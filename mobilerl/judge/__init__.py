"""The judge: a vision-language model that decides from the end of an episode whether the task was completed."""
