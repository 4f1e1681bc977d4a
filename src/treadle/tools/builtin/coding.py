"""The tools of the coding assistant, in the order in which they are offered to a model. Entry
point: `default_tools`.
"""

from __future__ import annotations

from typing import Any

from treadle.tools.builtin.apply_patch import ApplyPatch
from treadle.tools.builtin.bash import Bash
from treadle.tools.builtin.bash_kill import BashKill
from treadle.tools.builtin.bash_output import BashOutput
from treadle.tools.builtin.catalog import Builtin
from treadle.tools.builtin.edit import Edit
from treadle.tools.builtin.fetch import Fetch
from treadle.tools.builtin.glob import Glob
from treadle.tools.builtin.grep import Grep
from treadle.tools.builtin.ls import Ls
from treadle.tools.builtin.read import Read
from treadle.tools.builtin.todo_write import TodoWrite
from treadle.tools.builtin.write import Write


def default_tools() -> tuple[Builtin[Any], ...]:
    """Return new instances, although they keep no state between calls.

    A model is offered `apply_patch` if it is trained on it.
    """
    return (
        Read(),
        Write(),
        Edit(),
        ApplyPatch(),
        Bash(),
        BashOutput(),
        BashKill(),
        Glob(),
        Grep(),
        Ls(),
        TodoWrite(),
        Fetch(),
    )
