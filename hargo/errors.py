"""Errors meant for the person at the terminal."""


class UserError(Exception):
    """Bad input that the user can mend. The message is one line: what, where (file, row, key), and the fix.

    The command line prints it without a traceback and exits with status 2.
    """
