"""The tools of the coding assistant, in the order in which they are offered to the model. Entry
point: `default_tools`.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from treadle.errors import AgentError
from treadle.tools.builtin.apply_patch import ApplyPatch
from treadle.tools.builtin.base import Builtin
from treadle.tools.builtin.bash import Bash
from treadle.tools.builtin.bash_kill import BashKill
from treadle.tools.builtin.bash_output import BashOutput
from treadle.tools.builtin.edit import Edit
from treadle.tools.builtin.fetch import Fetch
from treadle.tools.builtin.glob import Glob
from treadle.tools.builtin.grep import Grep
from treadle.tools.builtin.ls import Ls
from treadle.tools.builtin.read import Read
from treadle.tools.builtin.todo_write import TodoWrite
from treadle.tools.builtin.write import Write

INSTALL = "pip install 'treadle[coding]'"
_PACKAGES = ("pathspec", "tree_sitter", "tree_sitter_bash")
"""Packages imported to check commands and to walk directories."""


def default_tools() -> tuple[Builtin[Any], ...]:
    """Return new instances, which keep no state between calls.

    `apply_patch` is offered only to models trained on it. Raises AgentError(invalid) if the extra
    `coding` is not installed.
    """
    if lacking := [name for name in _PACKAGES if find_spec(name) is None]:
        raise AgentError("invalid", f"the coding tools need {', '.join(lacking)}: {INSTALL}")
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
