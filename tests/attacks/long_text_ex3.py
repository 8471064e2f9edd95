"""Exercise 3 answers with a text of 20 million characters, and a number with 4000 digits.

The honest part is the rest.
"""

# %% instead of ex3
relu1_computes_on = "x" * 20_000_000
output_is_on = "device0"
number_of_copies = 10**4000
