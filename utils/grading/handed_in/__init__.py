"""What was handed in: whose it is, what is in it, and which of it is judged. Nothing of it is run here."""
