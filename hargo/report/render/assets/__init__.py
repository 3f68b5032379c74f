"""What the page is made of, beside this file so that a change of it counts as one of the code."""
