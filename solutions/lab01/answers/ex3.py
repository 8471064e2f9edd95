# %% wrong: back_on_the_cpu
# Thinks that an output comes back to where the batch came from.

relu1_computes_on = "device1"
output_is_on = "cpu"
number_of_copies = 3


# %% wrong: device_objects
# Gives the devices themselves where their names in the text are asked for.

relu1_computes_on = device1
output_is_on = device0
number_of_copies = 3


# %% wrong: every_line_counted
# Counts a copy for every line of forward.

relu1_computes_on = "device1"
output_is_on = "device0"
number_of_copies = 5


# %% wrong: first_copy_not_counted
# Thinks that the move from the CPU is no copy between devices.

relu1_computes_on = "device1"
output_is_on = "device0"
number_of_copies = 2


# %% wrong: number_as_text
# Writes the number between quotes, as the other answers are.

relu1_computes_on = "device1"
output_is_on = "device0"
number_of_copies = "3"


# %% wrong: output_where_layer2_is
# Thinks that the output is always where the last layer is, and does not see the move in the return.

relu1_computes_on = "device1"
output_is_on = "device1"
number_of_copies = 3


# %% wrong: printed_names
# Gives the names that printing a device shows.

relu1_computes_on = "simgpu:1"
output_is_on = "simgpu:0"
number_of_copies = 3


# %% wrong: relu_stays_with_its_layer
# Thinks that a ReLU computes where the layer before it is.

relu1_computes_on = "device0"
output_is_on = "device0"
number_of_copies = 3


# %% right: followed_by_a_loop
# Follows the batch through a table of the lines, with type hints on the answers.

places = ["cpu", "device0", "device1", "device1", "device1", "device0"]
relu1_computes_on: str = places[3]
output_is_on: str = places[-1]
number_of_copies: int = sum(a != b for a, b in zip(places, places[1:]))


# %% right: in_one_line
# Three names on one line, with a print that tells the reasons.

relu1_computes_on, output_is_on, number_of_copies = "device1", "device0", 3
print("CPU to device0, device0 to device1, device1 to device0:", number_of_copies)


# %% right: number_with_a_point
# Writes the number of copies with a point.

relu1_computes_on = "device1"
output_is_on = "device0"
number_of_copies = 3.0


# %% right: plain
# Three plain assignments.

relu1_computes_on = "device1"
output_is_on = "device0"
number_of_copies = 3
