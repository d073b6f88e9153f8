"""Checkpoints and their tokenizers, image processors and frozen features."""
