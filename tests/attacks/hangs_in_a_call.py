"""Exercise 1 never ends; it holds the interpreter in C, so that no thread of the process gets a turn.

The honest part is the rest.
"""

# %% instead of ex1
def make_layers(device0, device1):
    return "a" * 40 + "b", __import__("re").match(r"(a|aa|a+)+$", "a" * 60 + "b")
