"""Writes the number of copies with a point."""

relu1_computes_on = "device1"
output_is_on = "device0"
number_of_copies = 3.0
