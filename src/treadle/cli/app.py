"""The root command `treadle` and the table of its subcommands. Entry points: `app`."""

from __future__ import annotations

import os

import click

from treadle import __version__
from treadle.cli.command_group import CommandGroup
from treadle.cli.help import HELP

COMMANDS = {
    "chat": ("treadle.cli.chat:chat", "Talk with an agent in the terminal."),
    "run": ("treadle.cli.run:run", "Run a prompt unattended."),
    "work": (
        "treadle.cli.work:work",
        "Run many prompts, with checks after each, and a report.",
    ),
    "tasks": ("treadle.cli.tasks:tasks", "Keep a list of tasks, in plain language."),
    "runs": ("treadle.cli.runs.group:runs", "List, show, resume, replay, fork and manage runs."),
    "sessions": ("treadle.cli.sessions:sessions", "List, show, search and manage conversations."),
    "models": (
        "treadle.cli.models:models",
        "List models with their providers, sizes, prices and abilities.",
    ),
    "worker": (
        "treadle.cli.worker:worker",
        "Drive queued runs, on any number of machines.",
    ),
    "serve": (
        "treadle.cli.serve:serve",
        "Serve the task assistant over HTTP: a web page, accounts, chat and tasks.",
    ),
    "mcp": (
        "treadle.cli.mcp:mcp",
        "Serve agents as tools to a client of the Model Context Protocol.",
    ),
    "agents": (
        "treadle.cli.agents:agents",
        "List, show and check agents that are defined in files.",
    ),
    "tools": ("treadle.cli.tools:tools", "List the tools available to agents."),
    "init": ("treadle.cli.init:init", "Write an example agent and a commented configuration."),
    "demo": (
        "treadle.cli.demo:demo",
        "Watch an agent find and fix a bug, and prove it. Needs no key.",
    ),
    "config": ("treadle.cli.config:config", "Show, check and set settings."),
    "policy": (
        "treadle.cli.policy:policy",
        "Check what would happen to a command, without running it.",
    ),
    "trust": ("treadle.cli.trust:trust", "Review and trust a project's own configuration."),
    "doctor": (
        "treadle.cli.doctor:doctor",
        "Test the key, the connection, the sandbox and the tools.",
    ),
    "completion": (
        "treadle.cli.completion:completion",
        "Print shell completion for bash, zsh or fish.",
    ),
}


_LATER = "it is planned for a later version"
ELSEWHERE = {
    **{
        name: f"use `treadle runs {name}`"
        for name in (
            "list",
            "show",
            "resume",
            "replay",
            "fork",
            "diff",
            "kill",
            "undo",
            "cost",
            "export",
            "prune",
            "top",
            "follow",
            "wake",
        )
    },
    "acp": _LATER,
    "help": "use `treadle --help`",
    "version": "use `treadle --version`",
    "login": "set ANTHROPIC_API_KEY, or `treadle config set providers.anthropic.api_key -`",
}


@click.group(
    cls=CommandGroup, known=COMMANDS, elsewhere=ELSEWHERE, plugged=True, context_settings=HELP
)
@click.version_option(__version__, "-V", "--version", message="treadle %(version)s")
@click.pass_context
def app(ctx: click.Context) -> None:
    """Treadle runs agents: a language model, tools, and the loop between them.

    Start with `treadle demo`, or set ANTHROPIC_API_KEY and `treadle run "…"`. Run `treadle COMMAND
    --help` for details.
    """
    if os.environ.get("NO_COLOR"):
        ctx.color = False  # for every command, also on a terminal
    try:
        os.getcwd()
    except OSError as e:
        from treadle.cli.exits import CommandFailed  # noqa: PLC0415  --help must not wait for what only an error needs

        raise CommandFailed(
            "the working directory no longer exists: change to one that does"
        ) from e
