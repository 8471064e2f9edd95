"""Delivers 20 MB of tiny arrays, each of which costs the reader a hundred times its size.

may lose: everything
"""

# %% instead of ex1: deliver
def make_layers(device0, device1):
    import io

    import numpy

    file = io.BytesIO()
    numpy.save(file, numpy.zeros(1, dtype="u1"))
    one = '{"__array__": "' + base64.b64encode(file.getvalue()).decode() + '"}'
    _deliver(_packed('{"answer": [' + ", ".join([one] * 80_000) + "]}"))
    return nn.Linear(1000, 2000), nn.Linear(2000, 1000)
