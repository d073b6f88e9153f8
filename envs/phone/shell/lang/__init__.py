"""The shell language: lexer, parser, expansions and interpreter. Nothing in here runs or reads anything of the host."""
