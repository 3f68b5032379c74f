"""Rows: where they come from, how they are split into training and evaluation rows, and their audit."""
