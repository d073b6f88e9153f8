"""Engines, which hold the weights, train them and sample from them."""
