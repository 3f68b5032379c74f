"""Batches for the training loop: one file per kind of data that a method learns from."""
