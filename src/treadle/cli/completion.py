"""`treadle completion`: the script that teaches a shell our commands and options. Entry:

`completion`.
"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from treadle.cli.echo import echo
from treadle.cli.help import HELP


@click.command(context_settings=HELP)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print shell completion, to be evaluated by your shell: put eval "$(treadle completion bash)"
    into ~/.bashrc, or the like for zsh and fish.
    """
    shell_complete = get_completion_class(shell)
    assert shell_complete is not None, "the choices are those click knows"
    echo(shell_complete(ctx.find_root().command, {}, "treadle", "_TREADLE_COMPLETE").source())
