"""Three plain assignments."""

computation_starts_on = "device0"
batch_moves_to_device1_after = "relu1"
output_is_on = "device1"
