"""Delivers an answer of 100 million characters.

may lose: everything
"""

# %% instead of ex1: deliver
def make_layers(device0, device1):
    _deliver("A" * 100_000_000)
    return nn.Linear(1000, 2000), nn.Linear(2000, 1000)
