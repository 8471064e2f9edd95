"""Kernels of a student's server that are forked from the class's warm process (warm_service.py), where it is there."""

from __future__ import annotations

import asyncio
import os
import signal

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from jupyter_server.services.kernels.kernelmanager import ServerKernelManager

from utils.common.settings import FORK_SERVER
from utils.exercises.class_service import tell_of_a_dead_kernel
from utils.processes.forking import Forked, ForkServerEnded, Lent, lent_at

LAUNCHER = ["-m", "ipykernel_launcher"]
SAYS_SO = (
    "--IPKernelApp.exec_lines="
    "from utils.exercises.after_a_kill import tell_at_the_next_cell as _tell; _tell(); del _tell"
)

_warm: Lent | None = None


def _fork(request: dict) -> Forked:
    """A process of the class's warm process, by the one connection of this server. Raises ForkServerEnded."""
    global _warm
    if _warm is None or not _warm.alive():
        _warm = lent_at(os.environ.get(FORK_SERVER, ""))
    return _warm.fork(request)


class WarmKernelProvisioner(LocalProvisioner):
    """Has a kernel forked, and starts an ordinary one where that cannot be. Tells of a kernel that ends by itself."""

    _to_end = False  # it was asked to
    _killed = False  # by Linux, or by the memory guard

    async def launch_kernel(self, cmd: list[str], **options) -> KernelConnectionInfo:
        if self._killed and cmd[1:3] == LAUNCHER:
            cmd = [*cmd, SAYS_SO]
        self._to_end = self._killed = False
        if cmd[1:3] != LAUNCHER:  # no kernel of the course's
            return await super().launch_kernel(cmd, **options)
        request = {"environment": options["env"], "folder": options.get("cwd") or os.getcwd(), "arguments": cmd[3:]}
        try:
            self.process = await asyncio.to_thread(_fork, request)
        except ForkServerEnded as error:
            self.log.warning("An ordinary kernel is started: %s", error)
            return await super().launch_kernel(cmd, **options)
        self.pid = self.pgid = None  # its number is another in the room
        return self.connection_info

    async def poll(self) -> int | None:
        code = await super().poll()
        if self.process is not None and code is not None and not self._to_end:
            self._to_end, self._killed = True, code == -signal.SIGKILL
            tell_of_a_dead_kernel(code)
        return code

    async def shutdown_requested(self, restart: bool = False) -> None:
        self._to_end = True
        await super().shutdown_requested(restart)

    async def send_signal(self, signum: int) -> None:
        self._to_end |= signum not in (0, signal.SIGINT)
        if not isinstance(self.process, Forked):
            await super().send_signal(signum)
        elif signum == signal.SIGINT:
            self.process.interrupt()
        elif signum != 0:
            self.process.kill()


class WarmKernelManager(ServerKernelManager):
    """Jupyter's, with kernels of the class's warm process."""

    async def _async_pre_start_kernel(self, **options):
        if self.provisioner is None:
            self.provisioner = WarmKernelProvisioner(
                kernel_id=self.kernel_id or "", kernel_spec=self.kernel_spec, parent=self
            )
        return await super()._async_pre_start_kernel(**options)
