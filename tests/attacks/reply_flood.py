"""Sends a thousand execute_replies of 1 MB on the shell channel, with random parents and with the true one.

may lose: everything
"""

# %% first
_kernel = get_ipython().kernel
_parent = _kernel.get_parent("shell")
_ident = getattr(_kernel, "_parent_ident", {})
_ident = _ident.get("shell") if isinstance(_ident, dict) else _ident
for _number in range(1000):
    _kernel.session.send(_kernel.shell_stream, "execute_reply", {"x": "x" * 1_000_000}, parent={}, ident=_ident)
_kernel.session.send(
    _kernel.shell_stream, "execute_reply", {"status": 3, "ename": ["x"], "evalue": {"a": 1}}, parent=_parent, ident=_ident
)
