"""Follows the batch through a table of the steps and notes where it is, with type hints on the answers."""

steps = {"layer1": "device0", "relu1": "device0", "layer2": "device1", "relu2": "device1"}

computation_starts_on: str = steps["layer1"]
batch_moves_to_device1_after: str = ""
output_is_on: str = "cpu"
previous = ""
for step, place in steps.items():
    if place == "device1" and output_is_on == "device0":
        batch_moves_to_device1_after = previous
    output_is_on = place
    previous = step
