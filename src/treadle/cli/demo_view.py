"""Live view of a run in the demo. Entry points: `DemoView`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from treadle._internal.terminal_text import one_line, plain
from treadle.cli.echo import echo
from treadle.cli.render import summary
from treadle.messages import events
from treadle.messages.events import Event

OUTPUT_LINES = 12
LINE_CHARS = 110


class DemoView:
    """Display that prints the events of a run as they arrive."""

    def __init__(self, shorter: Mapping[str, str] | None = None) -> None:
        """Create a display. `shorter`: replacements for long words in arguments."""
        self._shorter = shorter or {}
        self._column = 0

    def show(self, event: Event) -> None:
        match event:
            case events.ReasoningStart():
                self.end_line()
                click.secho("  thinking: ", dim=True, nl=False)
            case events.ReasoningDelta():
                click.secho(plain(event.text), dim=True, nl=False)
                self._column = 1
            case events.TextDelta():
                echo(plain(event.text), nl=False)
                self._column = 1
            case events.ReasoningEnd() | events.MessageAdded() | events.ToolCallStart():
                self.end_line()
            case events.ToolCallAsked():
                click.secho(f"  • {event.name} ", fg="blue", nl=False)
                echo(one_line(self._arguments(event), 100))
            case events.ToolCallEnd(refused=False):
                self._result(event)
            case events.RunEnd():
                self.end_line()
                click.secho(f"\n{summary(event)}", bold=True)
            case _:
                return

    def end_line(self) -> None:
        if self._column:
            echo()
            self._column = 0

    def _result(self, event: events.ToolCallEnd) -> None:
        if event.unknown:
            click.secho(f"  ? {event.name}: {one_line(event.result, 200)}", fg="yellow")
            return
        exited = f" exit {event.exit_code}" if event.exit_code else ""
        words = (
            f"  {'✗' if event.failed else '✓'} {event.name}{exited} "
            f"{event.duration_ms / 1000:.1f} s"
        )
        click.secho(words, fg="red" if event.failed else "green")
        lines = (
            [line for line in plain(event.result).splitlines() if line.strip()]
            if event.name == "bash"
            else []
        )
        for line in lines[-OUTPUT_LINES:]:
            click.secho(f"    {line[:LINE_CHARS]}", dim=True)

    def _arguments(self, event: events.ToolCallAsked) -> str:
        if isinstance(event.arguments, str):
            return event.arguments
        shown = str(event.arguments.get("command") or event.arguments.get("path") or "")
        for long, short in self._shorter.items():
            shown = shown.replace(long, short)
        return shown
