"""Task templates of the embedded phone and the suite they form."""
