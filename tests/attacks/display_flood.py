"""Shows 60 outputs of 10 MB each, and as many in user_expressions' place: metadata, clear_output, payloads.

honest: everything
may lose: everything
"""

# %% first
from IPython.display import HTML, clear_output, display

for _ in range(60):
    display(HTML("x" * 10_000_000))
    clear_output()
get_ipython().payload_manager.write_payload({"source": "set_next_input", "text": "x" * 10_000_000})
