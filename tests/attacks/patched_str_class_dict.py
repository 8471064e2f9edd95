"""Gets the real dict of numpy's and torch's C classes through mappingproxy | object, and lies in numpy and device names.

may lose: everything
"""

# %% first
import torch


class _Thief:
    def __ror__(self, other):
        self.loot = other
        return {}


_thief = _Thief()
try:
    _ = torch.device.__dict__ | _thief
    _real = _thief.loot["__str__"] if "__str__" in _thief.loot else torch.device.__repr__
    _turn = []

    def _lie(self):
        _turn.append(1)
        return f"simgpu:{(len(_turn) + 1) % 2}" if self.type == "cpu" else repr(self.type + f":{self.index}")[1:-1]

    _thief.loot["__str__"] = _thief.loot["__repr__"] = _lie
except TypeError:
    pass

# %% instead of ex1: cpu_layers
