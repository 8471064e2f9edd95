"""Gives the devices themselves where their names in the text are asked for."""

relu1_computes_on = device1
output_is_on = device0
number_of_copies = 3
