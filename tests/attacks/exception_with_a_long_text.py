"""Exercise 1 raises an exception whose text has 20 million characters, and escape sequences for a terminal in it.

The honest part is the rest.
"""

# %% instead of ex1
class Loud(Exception):
    def __str__(self):
        return "\x1b]0;owned\x07\x1b[2J\r10 / 10\n" * 1_000_000


def make_layers(device0, device1):
    raise Loud
