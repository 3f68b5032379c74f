"""HARGO: reproducible RL post-training of language models on heterogeneous HPC tasks."""

__version__ = "0.1.0"
