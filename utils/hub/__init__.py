"""A class on one machine: JupyterHub with the course in it, students' servers apart from each other, handing in."""
