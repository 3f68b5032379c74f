"""Answers of trained models, baselines, metrics, and the statistics that compare them."""
