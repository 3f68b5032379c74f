"""Packed rows: how they are laid out, read, scored and computed fast. Knows models and token ids, nothing else."""
