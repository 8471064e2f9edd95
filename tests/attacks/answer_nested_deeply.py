"""Delivers an answer of a million nested lists, for which a parser needs a million frames.

may lose: everything
"""

# %% instead of ex1: deliver
def make_layers(device0, device1):
    _deliver(_packed('{"answer": ' + "[" * 1_000_000 + "]" * 1_000_000 + "}"))
    return nn.Linear(1000, 2000), nn.Linear(2000, 1000)
