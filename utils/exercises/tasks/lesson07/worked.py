"""Lesson 07: working versions of its tasks."""

import torch


def kept_by(layers, x):
    def pieces(tensors):
        return {tensor.untyped_storage().data_ptr() for tensor in tensors}

    seen = pieces([*layers.parameters(), *layers.buffers()])  # the layers' own tensors do not count
    kept = []
    for layer in layers:
        kept.append(0)

        def note(tensor):
            memory = tensor.untyped_storage()
            if memory.data_ptr() not in seen:  # two layers may save the same memory
                seen.add(memory.data_ptr())
                kept[-1] += memory.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            x = layer(x)
    return kept


def run_blocks(model, x, cut, device0, device1):
    model.blocks[:cut].to(device0)
    model.blocks[cut:].to(device1)
    length = x.shape[1]
    x, cos, sin = x.to(device0), model.cos[:length].to(device0), model.sin[:length].to(device0)
    for number, block in enumerate(model.blocks):
        if number == cut:
            x, cos, sin = x.to(device1), cos.to(device1), sin.to(device1)  # move the block's inputs once
        x = block(x, cos, sin)
    return x
