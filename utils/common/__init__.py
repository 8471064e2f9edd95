"""What every part of the course uses: errors, files, settings, and the format of notebooks."""
