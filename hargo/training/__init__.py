"""One training loop: batches, steps, checkpoints and exact resumption for every method."""
