"""Three names on one line, with a print that tells the reasons."""

relu1_computes_on, output_is_on, number_of_copies = "device1", "device0", 3
print("CPU to device0, device0 to device1, device1 to device0:", number_of_copies)
