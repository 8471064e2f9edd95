"""Thinks that the names which the first cell printed are asked for, not the offered texts."""

computation_starts_on = "simgpu:0"
batch_moves_to_device1_after = "relu1"
output_is_on = "simgpu:1"
