"""Exercise 1 raises an exception whose text has half a character (a lone surrogate), which no file can hold.

The honest part is the rest.
"""

# %% instead of ex1
def make_layers(device0, device1):
    raise ValueError("half a character: \ud800 and a zero: \x00")
