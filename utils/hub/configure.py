"""The hub's configuration: JupyterHub's own parts, told of this class.

password of the class     jupyterhub's shared-password authenticator
a student's server        its "simple" spawner, which starts the command of room.py when there is memory (line.py)
idle servers are stopped  jupyterhub-idle-culler
kernels                   forked from one process, by a service of the hub's (warm_service.py)
handing in                service.py, a service of the hub's
memory of a student       memory_guard.py, too
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from utils.common.files import ROOT, python_path
from utils.common.settings import FORK_SERVER, HAND_IN, PROGRESS, PYTHON
from utils.hub import class_folder, room, warm_service
from utils.hub.line import Line, SpawnerInLine
from utils.hub.proxy import ProxyWatchedOnce

PROXY = Path(sys.prefix) / "share" / "course-hub" / "node_modules" / ".bin" / "configurable-http-proxy"
SERVICE = "class"
TOLD = (
    "Your instructor sees which exercises your checks passed, which fact did not hold, which known mistake it looks "
    "like, and whose kernel died. No code is sent. raise_hand() asks for help "
    "(from utils.exercises.raise_hand import raise_hand)."
)
SECONDS_TO_START = 240  # thirty who begin together share the processor


def configure(c, folder: str) -> None:
    """Tell JupyterHub's configuration `c` about the class in a folder. Raises Problem for a class that is wrong."""
    of = class_folder.read_class(Path(folder))
    service_at = f"http://127.0.0.1:{of.port + 3}"

    c.JupyterHub.bind_url = f"http://{of.address}:{of.port}"
    c.JupyterHub.hub_port = of.port + 1
    c.JupyterHub.proxy_class = ProxyWatchedOnce
    c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{of.port + 2}"
    c.ConfigurableHTTPProxy.command = [str(PROXY)]
    c.ConfigurableHTTPProxy.pid_file = str(of.hub / "proxy.pid")
    c.JupyterHub.cookie_secret_file = str(of.hub / "cookie_secret")
    c.JupyterHub.db_url = f"sqlite:///{of.hub / 'jupyterhub.sqlite'}"

    c.JupyterHub.authenticator_class = "shared-password"
    c.SharedPasswordAuthenticator.user_password = of.password
    c.SharedPasswordAuthenticator.admin_password = of.instructors_password
    c.Authenticator.allowed_users = {*of.students, *of.instructors}
    c.Authenticator.admin_users = {*of.instructors}

    c.JupyterHub.spawner_class = SpawnerInLine
    SpawnerInLine.line = Line(of.free_gib * 2**30)
    c.SimpleLocalProcessSpawner.home_dir_template = str(of.homes / "{username}")
    c.LocalProcessSpawner.interrupt_timeout = 1  # a room ends by SIGTERM
    c.Spawner.pre_spawn_hook = lambda spawner: _before(spawner, of)
    c.Spawner.environment = {**room.environment(of), HAND_IN: f"{service_at}/services/{SERVICE}/"}
    if of.live:
        c.Spawner.environment[PROGRESS] = "1"
        c.JupyterHub.template_vars = {"announcement_login": TOLD}
    c.Spawner.default_url = "/lab/tree/notebooks/00_start_here.ipynb"
    c.Spawner.args = [
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.news_url=None",
        f"--LabApp.app_settings_dir={of.course / 'tools' / 'jupyter_lab_settings'}",
        f"--MappingKernelManager.cull_idle_timeout={of.idle_minutes * 60:.0f}",
        "--LanguageServerManager.autodetect=False",  # it would start npm to look for some
        "--KernelManager.transport=ipc",  # by files of the room: ports are shared, and two can take the same
    ]
    if warm := of.warm and not warm_service.no_warm_process():
        of.warm_socket.parent.mkdir(exist_ok=True)  # a room is made with it, whether the service is there or not yet
        c.Spawner.environment[FORK_SERVER] = str(of.warm_socket)
        c.Spawner.environment[PYTHON] = str(room.write_python(of))
        c.Spawner.args += ["--AsyncMappingKernelManager.kernel_manager_class=utils.hub.warm_kernels.WarmKernelManager"]
    c.Spawner.start_timeout = c.Spawner.http_timeout = SECONDS_TO_START
    c.JupyterHub.concurrent_spawn_limit = 0  # beyond a limit a student would be told to try again later
    c.Spawner.server_token_scopes = [
        "users:activity!user",
        "access:servers!server",
        f"access:services!service={SERVICE}",
        "read:users:name!user",
    ]

    # A hub that was killed takes its services with it: the next one starts them anew, at the same port.
    with_the_hub = ["setpriv", "--pdeathsig", "TERM", "--", sys.executable, "-m"]
    idle = [*with_the_hub, "jupyterhub_idle_culler", f"--timeout={of.idle_minutes * 60:.0f}"]
    receives = [*with_the_hub, "utils.hub.service", str(of.path)]
    own = {"PYTHONPATH": python_path()}
    guards = [*with_the_hub, "utils.hub.memory_guard", str(of.path)]
    forks = [*with_the_hub, "utils.hub.warm_service", str(of.path)]
    c.JupyterHub.services = [
        {"name": "idle", "command": idle},
        {
            "name": SERVICE,
            "url": service_at,
            "command": receives,
            "environment": own,
            "cwd": str(ROOT),
            "oauth_no_confirm": True,
        },
        *([{"name": "warm", "command": forks, "environment": own, "cwd": str(ROOT)}] if warm else []),
        *([{"name": "memory", "command": guards, "environment": own, "cwd": str(ROOT)}] if os.geteuid() == 0 else []),
    ]
    c.JupyterHub.load_roles = [
        {
            "name": "idle",
            "services": ["idle"],
            "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
        },
        {"name": "user", "scopes": ["self", f"access:services!service={SERVICE}"]},
    ]


def _before(spawner, of: class_folder.ClassFolder) -> None:
    spawner.cmd = room.server_command(of, spawner.user.name)
    spawner.port = room.free_port(of, spawner.user.name)
