"""Three names on one line, with a print that tells the reasons."""

computation_starts_on, batch_moves_to_device1_after, output_is_on = "device0", "relu1", "device1"
print("layer1 computes on", computation_starts_on, "because its weights are there")
print("the batch moves after", batch_moves_to_device1_after, "because layer2 is on the other device")
print("nobody moves the output, so it is on", output_is_on)
