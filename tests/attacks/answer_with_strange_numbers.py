"""Delivers numbers of 4000 digits, infinities, lone surrogates and wrong types in an answer that looks right.

may lose: everything
"""

# %% instead of ex1: deliver
def make_layers(device0, device1):
    number = "9" * 4000
    _deliver(
        _packed(
            '{"answer": {"kind": "layers", "types": ["Linear", "Linear"],'
            f' "sizes": [[{number}, NaN], [Infinity, "\\ud800"]], "devices": [null, {{}}]}}}}'
        )
    )
    return nn.Linear(1000, 2000), nn.Linear(2000, 1000)


# %% instead of ex4
def placement(model):
    layers = {f"{name}.{kind}": 10**4000 for name in ("first", "second") for kind in ("weight", "bias")}
    _text.clear()
    _deliver(_packed(json.dumps({"answer": layers})))
    return layers


def torn_layers(model):
    return [
        name
        for name, layer in model.named_modules()
        if len({t.device for t in (*layer.parameters(recurse=False), *layer.buffers(recurse=False))}) > 1
    ]
