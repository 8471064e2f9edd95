"""Keeps all activations in the memory of the CPU: nothing is computed again."""


def recomputed(model, x, size):
    outputs = []
    with torch.autograd.graph.save_on_cpu():
        for piece in x.to(model.device0).split(size):
            outputs.append(model(piece))
    return torch.cat(outputs)
