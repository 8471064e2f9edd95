"""Thinks that a ReLU belongs to the layer that follows it, so the batch moves right after the first layer."""

computation_starts_on = "device0"
batch_moves_to_device1_after = "layer1"
output_is_on = "device1"
