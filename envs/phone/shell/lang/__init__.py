"""The shell language: lexer, parser, expansions and interpreter. Nothing is run on, or read from, the host."""
