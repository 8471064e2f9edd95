"""Goes down the tree of modules by recursion and puts the names together itself."""


def placement(model, prefix=""):
    places = {prefix + name: str(p.device) for name, p in model.named_parameters(recurse=False)}
    for name, child in model.named_children():
        places.update(placement(child, prefix + name + "."))
    return places
