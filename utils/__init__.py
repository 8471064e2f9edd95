"""What the notebooks import. Each module does one thing; nothing is imported until it is asked for."""
