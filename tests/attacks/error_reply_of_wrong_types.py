"""Raises an exception whose class name is a megabyte of escape sequences, and a traceback without end.

honest: everything
"""

# %% first
_Kind = type("\x1b[2J\x1b]0;owned\x07\r" * 50_000, (Exception,), {})
raise _Kind("=HYPERLINK('http://localhost')\nstudent,10,10\r\nbob,0\u202e\u2028" * 1000)
