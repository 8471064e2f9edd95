"""Thinks that a ReLU computes where the layer before it is."""

relu1_computes_on = "device0"
output_is_on = "device0"
number_of_copies = 3
