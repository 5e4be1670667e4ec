"""Measurements: what the machine can do, and what decoding, training and starting reach of it."""
