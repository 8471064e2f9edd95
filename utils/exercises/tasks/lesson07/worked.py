"""Lesson 07: a working version of its task."""

import torch


def kept_by(layers, x):
    def pieces(tensors):
        return {tensor.untyped_storage().data_ptr() for tensor in tensors}

    seen = pieces([*layers.parameters(), *layers.buffers()])  # what the layers own is there anyway
    kept = []
    for layer in layers:
        kept.append(0)

        def note(tensor):
            memory = tensor.untyped_storage()
            if memory.data_ptr() not in seen:  # two layers may save the same tensor, or one that shares its memory
                seen.add(memory.data_ptr())
                kept[-1] += memory.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            x = layer(x)
    return kept
