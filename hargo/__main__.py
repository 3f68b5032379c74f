"""`python -m hargo`: the same as the command `hargo`."""

from hargo.cli import main

main()
