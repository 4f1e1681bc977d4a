"""Stands for a process of Python that would have to import Treadle first: `python -I -S forwarded.py
ADDRESS PROGRAM ARGUMENTS`.

Hands its streams, directory and environment to the fork server at the address, passes signals on,
and ends as the process there does. Imports as little as it can. Entry: fork_server.py's `command`.
"""

import json
import os
import signal
import socket
import sys
from types import FrameType

_, address, program, *arguments = sys.argv
line = socket.socket(socket.AF_UNIX)
line.connect(f"\0{address}")
request = json.dumps(
    {
        "program": program,
        "arguments": arguments,
        "cwd": os.getcwd(),
        "environment": dict(os.environ),
    }
).encode()
socket.send_fds(line, [len(request).to_bytes(8, "big")], [0, 1, 2])
line.sendall(request)
nothing = os.open(os.devnull, os.O_RDWR)
for number in (0, 1, 2):  # whoever reads them waits for their end
    os.dup2(nothing, number)
answers = line.makefile("rb")
pid = json.loads(answers.read(int.from_bytes(answers.read(8), "big")))["pid"]


def pass_on(number: int, frame: FrameType | None) -> None:
    os.kill(pid, number)


for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGWINCH):
    signal.signal(one, pass_on)
code = int(answers.read() or -signal.SIGKILL)
if code < 0:
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
