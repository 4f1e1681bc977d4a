"""The tools of the coding assistant, in the order in which a model is told of them.

Not here: what each does. Entry: `default_tools`.
"""

from __future__ import annotations

from typing import Any

from treadle.tools.apply_patch import ApplyPatch
from treadle.tools.bash import Bash
from treadle.tools.bash_kill import BashKill
from treadle.tools.bash_output import BashOutput
from treadle.tools.builtin import Builtin
from treadle.tools.edit import Edit
from treadle.tools.fetch import Fetch
from treadle.tools.glob import Glob
from treadle.tools.grep import Grep
from treadle.tools.ls import Ls
from treadle.tools.read import Read
from treadle.tools.todo_write import TodoWrite
from treadle.tools.write import Write


def default_tools() -> tuple[Builtin[Any], ...]:
    """New ones each time, though they keep nothing between calls. A model is offered `apply_patch` if it is trained on it."""
    return (Read(), Write(), Edit(), ApplyPatch(), Bash(), BashOutput(), BashKill(), Glob(), Grep(), Ls(), TodoWrite(), Fetch())
