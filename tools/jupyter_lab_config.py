"""How `make lab` starts JupyterLab."""

import os

c = get_config()  # noqa: F821  (Jupyter provides it)
# The file browser shows the course: notebooks, labs, utils.
c.ServerApp.root_dir = os.getcwd()
# The address that is printed leads to the first notebook, too, and not to what was open last in another folder.
c.LabApp.default_url = "/lab/tree/notebooks/00_start_here.ipynb"
c.LabApp.workspaces_dir = os.path.join(os.getcwd(), "build", "workspaces")
# JupyterLab refuses to run as root unless told so; in a container there is often no other user.
c.ServerApp.allow_root = True
# The course makes no network calls of its own; these are JupyterLab's, and the question whether it may.
c.LabApp.check_for_updates_class = "jupyterlab.NeverCheckForUpdate"
c.LabApp.news_url = None
c.LabApp.app_settings_dir = os.path.join(os.getcwd(), "tools", "jupyter_lab_settings")
