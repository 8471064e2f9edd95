"""Thinks that the first layer computes where the batch arrives."""

computation_starts_on = "cpu"
batch_moves_to_device1_after = "relu1"
output_is_on = "device1"
