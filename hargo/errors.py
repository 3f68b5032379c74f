"""Errors meant for the person at the terminal."""


class UserError(Exception):
    """Bad input that the user can fix. The message is one line: what, where (file, row, key), and the fix.

    The command line prints it without a traceback and exits with status 2.
    """


class Interrupted(Exception):
    """Training was interrupted and has written a checkpoint; running it again resumes from there.

    The command line exits with status 75, that of a temporary failure (EX_TEMPFAIL).
    """
