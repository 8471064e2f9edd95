"""A plain loop with an f-string for the text, which also prints the table."""


def placement(model):
    where = {}
    for name, parameter in model.named_parameters():
        where[name] = f"{parameter.device}"
        print(f"{name:<20} {where[name]}")
    return where
