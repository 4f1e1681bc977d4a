"""What somebody is told who has no libraries for the task assistant."""

from __future__ import annotations

import subprocess
import sys


def test_without_its_libraries_the_line_that_installs_them_is_told():
    program = "import sys; sys.modules['sqlmodel'] = None; import treadle.apps.assistant as tasks; tasks.AgentContext; tasks.AgentRunner"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=200
    )
    assert done.stderr.splitlines()[-1].endswith(
        "the task assistant needs sqlmodel, which is not installed: pip install 'treadle[service]'"
    )
