"""Thinks that the devices themselves are asked for, not the offered texts."""

computation_starts_on = device0
batch_moves_to_device1_after = "relu1"
output_is_on = device1
