"""JupyterHub's proxy, served first, and without a defect of JupyterHub 6.1: one that it started again outlives it.

Each start begins one more watch over the proxy's process, and the end of the hub ends the last of them only. Another
then finds that the proxy has ended, and starts it.
"""

from jupyterhub.proxy import ConfigurableHTTPProxy

from utils.hub.priority import serve_first


class ProxyWatchedOnce(ConfigurableHTTPProxy):
    async def start(self):
        if self._check_running_callback is not None:
            self._check_running_callback.stop()
        serve_first()
        await super().start()
        serve_first(self.proxy_process.pid)
