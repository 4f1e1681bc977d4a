"""A confined command ends with whoever started it, also where that one is killed while it is still
being made.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.policy.sandboxes.conftest import BWRAP, needs_bubblewrap

pytestmark = needs_bubblewrap

STARTED_AND_DIED = """
import os, signal, subprocess, sys, time
from pathlib import Path
from treadle.tools.confinement import CommandRoom
from treadle.policy.sandboxes.bubblewrap import Bubblewrap

place = Path(sys.argv[2])
room = CommandRoom(workspace=place, scratch=lambda: place, quarantine=lambda: place)
cage = Bubblewrap(sys.argv[1]).make_cage(["/bin/bash", "-c", "echo it ran; sleep 600"], place, {"PATH": os.environ["PATH"]}, room)
subprocess.Popen(cage.argv, stdin=subprocess.DEVNULL, env=dict(cage.environment), pass_fds=cage.pass_fds, start_new_session=True)
end = time.perf_counter() + float(sys.argv[3])
while time.perf_counter() < end:
    pass
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("life_s", [0.0, 0.0005, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.008])
def test_a_command_whose_starter_is_killed_before_it_lets_it_begin_never_runs_and_ends(
    base: Path, life_s: float
) -> None:
    """Whatever lives on holds the pipe open, and this waits for its end in vain."""
    argv = [sys.executable, "-c", STARTED_AND_DIED, BWRAP, str(base), str(life_s)]
    run = subprocess.run(
        argv,
        stdout=subprocess.PIPE,
        timeout=200,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert run.returncode < 0, "it was killed"
    assert b"it ran" not in run.stdout
