"""`treadle serve`: the HTTP service of treadle.service, started by one command. Entry points:
`serve`.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from treadle._internal.terminal_text import plain
from treadle.cli.database_option import database_option
from treadle.cli.echo import echo
from treadle.cli.exits import failing
from treadle.cli.help import HELP
from treadle.cli.journal_option import journal_option
from treadle.cli.logs import log_to_stderr

if TYPE_CHECKING:
    import socket

    from treadle.config import Config
    from treadle.runtime.runtime import Runtime

HOST, PORT = "127.0.0.1", 8000


@click.command(context_settings=HELP)
@click.option(
    "--host",
    metavar="ADDRESS",
    default=HOST,
    help=f"Address to listen on. Default: {HOST}. For others, also set service.hosts.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    help=f"Port to listen on. Default: {PORT}; 0 picks a free one.",
)
@click.option(
    "--model",
    metavar="MODEL",
    help=(
        "PROVIDER:ID, or `embedded`, which needs no key. Default: the configured model if it has "
        "a key, else embedded."
    ),
)
@journal_option
@database_option
@click.option(
    "--agent",
    "agents",
    metavar="NAME",
    multiple=True,
    help="Serve this agent in addition to the task assistant; repeatable.",
)
@click.option(
    "--queue",
    metavar="NAME",
    help=(
        "Put runs of agents into this queue for `treadle worker`. Default: service.queue, else "
        "they are driven here."
    ),
)
def serve(
    host: str,
    port: int,
    model: str | None,
    journal: str | None,
    database: str | None,
    agents: tuple[str, ...],
    queue: str | None,
) -> None:
    """Serve the task assistant to many people: a web page, chat, tasks and runs over HTTP.

    Needs no key and no set-up: accounts and tasks are kept in SQLite, and a rule-based assistant
    answers if there is no model. Set limits, names and registration under `service:` in the
    configuration.

    Ctrl-C or SIGTERM shuts it down: active requests get a few seconds, and interrupted runs
    continue at the next start. Exits with 0 then, with 2 if it cannot start.
    """
    from treadle.service import require_service  # noqa: PLC0415  --help needs none of it

    with failing():
        require_service()
        from msgspec import structs  # noqa: PLC0415  not needed for --help

        from treadle.cli.task_model import model_flags, task_model  # noqa: PLC0415  not needed for --help
        from treadle.config import load  # noqa: PLC0415  not needed for --help
        from treadle.runtime.submit import check_queue  # noqa: PLC0415  not needed for --help

        config = load(flags=model_flags(model))
        if queue is not None:
            check_queue(config.queue_names, queue)
            config = structs.replace(config, service=structs.replace(config.service, queue=queue))
        # The task assistant is always served.
        beside = tuple(
            name for name in dict.fromkeys((*config.service.agents, *agents)) if name != "tasks"
        )
        _serve(config, task_model(config, model), (host, port), (journal, database), beside)


def _serve(
    config: Config,
    model: str | None,
    address: tuple[str, int],
    places: tuple[str | None, str | None],
    agents: Sequence[str],
) -> None:
    """Run the server. `model`: that of the task assistant; None for the rules. `places`: URLs of
    the journal and the database, as given.
    """
    import anyio  # noqa: PLC0415  --help needs none of it

    from treadle.apps.assistant.application import task_application  # noqa: PLC0415  not needed for --help
    from treadle.cli.agent_option import module_hooks  # noqa: PLC0415  not needed for --help
    from treadle.cli.database_option import database_url  # noqa: PLC0415  not needed for --help
    from treadle.cli.journal_option import journal_url, open_runtime, shown_url  # noqa: PLC0415  not needed for --help
    from treadle.config import home  # noqa: PLC0415  not needed for --help
    from treadle.service.app import create_app  # noqa: PLC0415  not needed for --help
    from treadle.service.database.database import Database  # noqa: PLC0415  not needed for --help
    from treadle.service.hosts import is_loopback  # noqa: PLC0415  not needed for --help
    from treadle.service.serving import bound, serve_app  # noqa: PLC0415  not needed for --help
    from treadle.service.state import Service  # noqa: PLC0415  not needed for --help
    from treadle.service.tokens import signing_key  # noqa: PLC0415  not needed for --help

    host, port = address
    key, own = signing_key(os.environ, home(os.environ)), is_loopback(host)
    journal, database = journal_url(config, places[0]), database_url(places[1])
    _warn(config, None if own else host)

    async def main() -> None:
        runtime = open_runtime(config, journal, hooks=module_hooks(config))
        _register(config, runtime, agents)
        if model is not None:
            runtime.models.get(model, scope="serve")
        service = Service(
            config,
            Database.open(database),
            runtime,
            key=key,
            application=task_application(model),
            agents=agents,
            on_loopback=own,
            journal=_name_of(key, getattr(runtime.journal, "identity", journal)),
        )
        listening = bound(host, port)
        told = [
            ("database", shown_url(database)),
            ("journal", shown_url(journal)),
            ("model", model or "embedded, which needs no key"),
            ("agents", ", ".join(("tasks", *agents))),
        ]
        try:
            await serve_app(
                create_app(service), listening, ready=lambda: _tell(_address(listening), told)
            )
        finally:
            listening.close()

    anyio.run(main)


def _warn(config: Config, public_host: str | None) -> None:
    """Set up logging, and print warnings: also if the service would reject requests to its own
    public host.
    """
    from treadle._internal.redaction import Redactor  # noqa: PLC0415  not needed for --help

    redactor = Redactor(config.secrets())
    requests = logging.WARNING if config.telemetry.logs == "off" else logging.INFO
    log_to_stderr(
        redactor,
        {"treadle": logging.WARNING, "treadle.service": requests, "uvicorn.error": logging.ERROR},
    )
    for warning in config.warnings:
        _say(redactor.text(warning))
    if public_host is not None and not config.service.hosts and config.service.public_url is None:
        _say(
            f"listening at {public_host}, but answering to loopback names only: set service.hosts "
            "to the host names of the service"
        )


def _name_of(key: bytes, journal: str) -> str:
    """Return an identifier of a journal. It is the same for every process that shares the journal,
    and unique across machines and folders.
    """
    parts = urlsplit(journal)
    if parts.scheme in ("postgresql", "postgres"):  # the user and the local host do not matter
        place = [
            (parts.hostname or "").encode(),
            str(parts.port or 5432).encode(),
            parts.path.encode(),
            parts.query.encode(),
        ]
    else:
        place = [journal.encode(), platform.node().encode()]
    return hashlib.sha256(b"\0".join((key, *place))).hexdigest()


def _register(config: Config, runtime: Runtime, names: Sequence[str]) -> None:
    """Register the agents and every agent that they can call. Raises AgentError(invalid)."""
    if not names:
        return
    from treadle.agents.definitions import Catalog  # noqa: PLC0415  brings the library for YAML
    from treadle.cli.agent_option import defined_agent, made_agent  # noqa: PLC0415  it brings the library for YAML

    catalog = Catalog(config, Path.cwd())
    for name in names:
        chosen = (made_agent if name in config.service.agents else defined_agent)(
            config, catalog, name
        )
        for agent in (*chosen.others, replace(chosen.agent, limits=chosen.limits)):
            if agent.name == name:
                runtime.agents.unregister(name)
            if agent.name not in runtime.agents:
                runtime.agents.register(agent)


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _tell(address: str, rows: Sequence[tuple[str, str]]) -> None:
    """Print the address on stdout, for programs, and everything else on stderr, for people."""
    echo(address)
    for name, text in (*rows, ("stop", "Ctrl-C")):
        echo(f"  {name:<9} {plain(text)}", err=True)


def _say(text: str) -> None:
    echo(f"! {plain(text)}", err=True)
