"""Asks for input, with input() and by a request on the stdin channel, and waits for an answer that never comes.

honest: everything
may lose: everything
"""

# %% first
_kernel = get_ipython().kernel
for _ in range(200):
    try:
        _kernel.session.send(_kernel.stdin_socket, "input_request", {"prompt": "x" * 1_000_000, "password": True})
    except Exception:
        break
_kernel._allow_stdin = True
input("your name? ")
