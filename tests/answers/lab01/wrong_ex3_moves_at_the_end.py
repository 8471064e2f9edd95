"""Thinks that only the finished result is moved to the second device."""

computation_starts_on = "device0"
batch_moves_to_device1_after = "relu2"
output_is_on = "device1"
