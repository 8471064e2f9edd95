"""Thinks that the second layer pulls the batch over while it computes, so the batch has moved only after it."""

computation_starts_on = "device0"
batch_moves_to_device1_after = "layer2"
output_is_on = "device1"
