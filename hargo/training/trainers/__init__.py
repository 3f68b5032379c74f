"""Trainers: one file per kind of data that a run learns from, with its batches and `train(job)`."""
