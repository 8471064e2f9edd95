"""Follows the batch through a table of the lines, with type hints on the answers."""

places = ["cpu", "device0", "device1", "device1", "device1", "device0"]
relu1_computes_on: str = places[3]
output_is_on: str = places[-1]
number_of_copies: int = sum(a != b for a, b in zip(places, places[1:]))
