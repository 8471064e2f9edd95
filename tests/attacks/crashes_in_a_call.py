"""Exercise 1 reads from address 0, with ctypes and through faulthandler, so that the process dies by a signal.

The honest part is the rest.
"""

# %% instead of ex1
def make_layers(device0, device1):
    import ctypes

    ctypes.string_at(0)
