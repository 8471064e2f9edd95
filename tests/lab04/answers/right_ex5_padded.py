"""Pads the tensors to one length, so that they travel as one."""


def move_together(tensors, device):
    padded = nn.utils.rnn.pad_sequence([tensor.flatten() for tensor in tensors], batch_first=True).to(device)
    return [row[: tensor.numel()].view(tensor.shape) for row, tensor in zip(padded, tensors, strict=True)]
