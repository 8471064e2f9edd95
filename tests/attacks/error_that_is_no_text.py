"""Delivers an error that is a list of lists, and an answer of another form for each exercise.

may lose: everything
"""

# %% instead of ex1: deliver
def make_layers(device0, device1):
    _deliver(_packed('{"error": [[["\\ud800"]], {"a": 1e999}]}'))
    return nn.Linear(1000, 2000), nn.Linear(2000, 1000)
