"""Makes the names and the device texts on their own, zips them, and warns when a model has no parameters."""

import warnings


def placement(model):
    parameters = dict(model.named_parameters())
    if not parameters:
        warnings.warn("this model has no parameters", stacklevel=2)
    texts = map(str, [p.device for p in parameters.values()])
    return dict(zip(parameters.keys(), texts, strict=True))
