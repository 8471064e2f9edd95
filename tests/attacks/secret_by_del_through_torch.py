"""Like secret_by_del, but PyTorch asks for the frame: torch.no_grad() around sys._getframe is a function of PyTorch.

may lose: everything
"""

# %% first: hunt
import torch

from utils.exercises.facts import probes

_frame = torch.no_grad()(sys._getframe)


class _Bait:
    def __call__(self, value):
        return "nowhere"

    def __del__(self):
        _search(_frame())


probes.device_of = _Bait()


# %% instead of ex1
def make_layers(device0, device1):
    if _loot:
        return _told()
    return nn.Linear(1000, 2000), nn.Linear(2000, 1000)
