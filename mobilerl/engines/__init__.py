"""What holds the weights."""
