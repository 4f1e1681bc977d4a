"""`treadle completion`: prints the completion script of a shell. Entry points: `completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from treadle.cli.echo import echo
from treadle.cli.help import HELP


@click.command(context_settings=HELP)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for your shell. For bash, add eval "$(treadle completion bash)"
    to ~/.bashrc; zsh and fish work the same way.
    """
    shell_complete = get_completion_class(shell)
    assert shell_complete is not None, "the choices are those click knows"
    echo(shell_complete(ctx.find_root().command, {}, "treadle", "_TREADLE_COMPLETE").source())
