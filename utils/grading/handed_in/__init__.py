"""Submissions: whose each one is, reading its files, and choosing the notebooks to judge. Nothing is run here."""
