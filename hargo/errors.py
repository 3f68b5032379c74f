"""Errors meant for the person at the terminal."""


class UserError(Exception):
    """Bad input that the user can mend. The message is one line: what, where (file, row, key), and the fix.

    The command line prints it without a traceback and exits with status 2.
    """


class Interrupted(Exception):
    """Training was asked to stop and has written a checkpoint; started again it goes on from there.

    The command line exits with status 75, that of a failure that passes (EX_TEMPFAIL).
    """
