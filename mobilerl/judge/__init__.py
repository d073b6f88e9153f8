"""The VLM judge: an autonomous evaluator that reads an episode's end and says whether the task was done."""
