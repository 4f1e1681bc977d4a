"""Contract of commands, over the fixture `command`, a `click.Command`. Import its tests: `from
treadle.testing.contracts.commands import *`.
"""

from __future__ import annotations

import click
from click.testing import CliRunner, Result


def _invoked(command: click.Command, *arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, prog_name=f"treadle {command.name}")


def test_a_command_has_a_name_and_help(command: click.Command) -> None:
    assert command.name
    assert command.get_short_help_str().strip()
    done = _invoked(command, "--help")
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"Usage: treadle {command.name} ")


def test_each_option_of_a_command_is_described(command: click.Command) -> None:
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert (parameter.help or "").strip(), parameter.name


def test_an_unknown_option_is_named_and_ends_with_2(command: click.Command) -> None:
    done = _invoked(command, "--no-such-option")
    assert done.exit_code == 2, done.output
    assert "--no-such-option" in done.output
