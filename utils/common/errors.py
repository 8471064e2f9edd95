"""What the person at the command can mend."""


class Problem(Exception):
    """Something to mend before the command can do its work. One line, told without a traceback."""
