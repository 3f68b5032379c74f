"""Models and tokenizers: preparing, loading, encoding rows, and computing several sequences at once."""
