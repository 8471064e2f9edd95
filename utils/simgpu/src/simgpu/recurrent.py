"""LSTM and GRU cells. For devices other than the CPU PyTorch calls fused kernels that the CPU does not have.

Here they are from their definitions (torch.nn.LSTM and torch.nn.GRU, "Docs"), forward and backward. Shapes:
gates are (batch, 4 x hidden) for an LSTM and (batch, 3 x hidden) for a GRU, states (batch, hidden), biases
(4 x hidden) or (3 x hidden), or None. `workspace` is what only the backward reads.
"""

from __future__ import annotations

import torch

aten = torch.ops.aten


def _plus(gates, bias):
    return gates if bias is None else gates + bias


def lstm_cell(input_gates, hidden_gates, cell, input_bias=None, hidden_bias=None):
    gates = _plus(input_gates, input_bias) + _plus(hidden_gates, hidden_bias)
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    new_cell = f * cell + i * g
    return o * new_cell.tanh(), new_cell, torch.cat((i, f, g, o), 1)


def lstm_cell_backward(grad_hidden, grad_cell, cell, new_cell, workspace, has_bias):
    if grad_hidden is None and grad_cell is None:
        return None, None, None
    i, f, g, o = workspace.chunk(4, 1)
    squashed = new_cell.tanh()
    grad_hidden = torch.zeros_like(cell) if grad_hidden is None else grad_hidden
    grad = grad_hidden * o * (1 - squashed * squashed)
    if grad_cell is not None:
        grad = grad + grad_cell
    gates = (
        grad * g * i * (1 - i),
        grad * cell * f * (1 - f),
        grad * i * (1 - g * g),
        grad_hidden * squashed * o * (1 - o),
    )
    grad_gates = torch.cat(gates, 1)
    return grad_gates, grad * f, grad_gates.sum(0) if has_bias else None


def gru_cell(input_gates, hidden_gates, hidden, input_bias=None, hidden_bias=None):
    ir, iz, in_ = _plus(input_gates, input_bias).chunk(3, 1)
    hr, hz, hn = _plus(hidden_gates, hidden_bias).chunk(3, 1)
    r, z = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    n = (in_ + r * hn).tanh()
    return n + z * (hidden - n), torch.cat((r, z, n, hidden, hn), 1)


def gru_cell_backward(grad, workspace, has_bias):
    r, z, n, hidden, hn = workspace.chunk(5, 1)
    grad_z = grad * (hidden - n) * z * (1 - z)
    grad_n = grad * (1 - z) * (1 - n * n)
    grad_r = grad_n * hn * r * (1 - r)
    grad_input = torch.cat((grad_r, grad_z, grad_n), 1)
    grad_hidden = torch.cat((grad_r, grad_z, grad_n * r), 1)
    biases = (grad_input.sum(0), grad_hidden.sum(0)) if has_bias else (None, None)
    return grad_input, grad_hidden, grad * z, *biases


# What is computed in place of an operator that has no CPU kernel.
SUBSTITUTES = {
    aten._thnn_fused_lstm_cell.default: lstm_cell,
    aten._thnn_fused_lstm_cell_backward_impl.default: lstm_cell_backward,
    aten._thnn_fused_gru_cell.default: gru_cell,
    aten._thnn_fused_gru_cell_backward.default: gru_cell_backward,
}
