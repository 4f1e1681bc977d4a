"""The group `treadle runs`, which imports each command when it is called. Entry points: `runs`."""

from __future__ import annotations

import click

from treadle.cli.command_group import CommandGroup
from treadle.cli.help import HELP

COMMANDS = {
    "list": ("treadle.cli.runs.listing:list_", "List the newest runs."),
    "show": (
        "treadle.cli.runs.show:show",
        "Show the timeline of a run: turns, calls, crashes, unknown results.",
    ),
    "top": ("treadle.cli.runs.top:top", "Watch queues, workers, and runs that are stuck."),
    "follow": (
        "treadle.cli.runs.follow:follow",
        "Follow a run that another process drives, to its end.",
    ),
    "wake": (
        "treadle.cli.runs.wake:wake",
        "Queue a run that waits, is parked, or was stopped.",
    ),
    "resume": (
        "treadle.cli.runs.resume:resume",
        "Continue a run that was stopped, or that waits for a person.",
    ),
    "replay": (
        "treadle.cli.runs.replay:replay",
        "Print a run again. Calls no model, runs no tool.",
    ),
    "fork": (
        "treadle.cli.runs.fork:fork",
        "Start a new run from a turn of another one.",
    ),
    "diff": ("treadle.cli.runs.diff:diff", "Show where two runs diverge, and how they ended."),
    "kill": ("treadle.cli.runs.kill:kill", "End a run, whichever process drives it."),
    "undo": ("treadle.cli.runs.undo:undo", "Restore the files that a run changed."),
    "cost": (
        "treadle.cli.runs.cost:cost",
        "Sum up tokens and cost of runs, by day, model or session.",
    ),
    "export": ("treadle.cli.runs.export:export", "Print a run as JSON lines."),
    "import": ("treadle.cli.runs.import_:import_", "Import a run that `runs export` wrote."),
    "encrypt": (
        "treadle.cli.runs.encrypt:encrypt",
        "Encrypt a journal, or change its key.",
    ),
    "prune": ("treadle.cli.runs.prune:prune", "Delete old runs, after showing what that frees."),
}


@click.group(cls=CommandGroup, known=COMMANDS, context_settings=HELP)
def runs() -> None:
    """List, show, resume, replay, fork and manage runs.

    A run processes one prompt to its end. ID is a run's id, the beginning of one, or `last` for
    the newest run.
    """
