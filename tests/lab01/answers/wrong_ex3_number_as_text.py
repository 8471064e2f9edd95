"""Writes the number between quotes, as the other answers are."""

relu1_computes_on = "device1"
output_is_on = "device0"
number_of_copies = "3"
