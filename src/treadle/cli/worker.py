"""`treadle worker`: drives queued runs.

The worker is in treadle.workers.worker; engines deliver runs to it. Entry points: `worker`.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import click
from typing_extensions import override

from treadle._internal.terminal_text import one_line
from treadle._internal.units import count, lasting
from treadle.cli.exits import CommandFailed, failing
from treadle.cli.help import HELP
from treadle.cli.journal_option import journal_option
from treadle.cli.run_options import permission_options
from treadle.cli.worker_lines import WorkerOutput
from treadle.config.serving_readers import split_address
from treadle.errors import AgentError, ErrorKind
from treadle.types import SLOTS_MAX

if TYPE_CHECKING:
    from treadle.config import Config
    from treadle.journal.engine import Engine
    from treadle.journal.journal import Journal
    from treadle.runtime.runtime import Runtime
    from treadle.workers.worker import Worker

ENGINES: Final = ("local", "dbos")
HOST_MOST: Final = 80
"""Maximum length of the host name in a worker's name. The process id after it keeps names
unique.
"""
METRICS_NEED: Final = "metrics need a library that is not installed: pip install 'treadle[metrics]'"


class EngineName(click.Choice[str]):
    """The built-in engines, and those of plug-ins."""

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from treadle.config.plugins import offers  # noqa: PLC0415  not needed for --help

        if value not in ENGINES and offers("engines", value):
            return value
        return super().convert(value, param, ctx)


def _rules(command: Any) -> Any:
    for option in reversed(permission_options):
        command = option(command)
    return command


@click.command(context_settings=HELP)
@click.option(
    "--queue",
    "queues",
    metavar="NAME",
    multiple=True,
    help="Take runs of this queue; repeatable. Default: all queues of the configuration.",
)
@click.option(
    "--slots",
    type=click.IntRange(1, SLOTS_MAX),
    metavar="N",
    help="Maximum number of concurrent runs. Default: 8.",
)
@click.option(
    "--name",
    metavar="NAME",
    help="Unique name of this worker. Default: derived from the host and the process.",
)
@click.option(
    "--engine",
    type=EngineName(ENGINES),
    help="Engine that delivers runs: local, or dbos, whose limits span all workers. Default: "
    "local.",
)
@click.option(
    "--metrics",
    metavar="HOST:PORT",
    help="Serve Prometheus metrics at this address. Default: none.",
)
@click.option(
    "--agent",
    "agents",
    metavar="NAME",
    multiple=True,
    help="Drive runs of this agent as this folder defines it, wherever they began; repeatable.",
)
@_rules
@click.option("-q", "quiet", is_flag=True, help="Only warnings and errors.")
@click.option(
    "-v", "verbose", is_flag=True, help="Also a line for each run that begins and ends here."
)
@journal_option
def worker(**options: Any) -> None:
    """Drive queued runs: those of `treadle run --detach`, of `treadle work --workers`, of the
    service, of programs, and of schedules.

    Any number of workers, on any number of machines, can share a journal: each run is driven by one
    worker at a time, and if a worker dies, another continues its runs. Workers of one machine can
    share a SQLite journal; several machines need PostgreSQL.

    An agent is found as `treadle runs resume` finds it: in the directory of the run, which must
    exist on this machine. Rules, keys and the sandbox are this worker's.

    SIGTERM or Ctrl-C drains it: it takes no more runs, its active runs get workers.grace_s seconds
    to end, and unfinished ones continue on other workers. A second signal ends it immediately.
    Exits with 0 then, with 2 if it cannot start.
    """
    import anyio  # noqa: PLC0415  --help needs none of it

    from treadle._internal.redaction import Redactor  # noqa: PLC0415  not needed for --help
    from treadle.cli.journal_option import journal_url  # noqa: PLC0415  not needed for --help
    from treadle.cli.logs import log_to_stderr  # noqa: PLC0415  not needed for --help
    from treadle.config import load  # noqa: PLC0415  not needed for --help

    flags = {
        "--allow": options["allow"] or None,
        "--network": options["network"],
        "--no-sandbox": options["no_sandbox"],
    }
    with failing():
        config = load(flags=flags)
        url = journal_url(config, options["journal"])
        wish = _wish(config, url, options, flags)
        secrets = Redactor(config.secrets())
        log_to_stderr(secrets, {"treadle": logging.INFO if options["verbose"] else logging.WARNING})
        tell = WorkerOutput(secrets, quiet=options["quiet"], verbose=options["verbose"])
        for warning in config.warnings:
            tell.warn(warning)
        anyio.run(_work, config, wish, tell)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    url: str
    queues: tuple[str, ...]
    engine: str
    slots: int
    name: str
    agents: tuple[str, ...]
    metrics: tuple[str, int] | None
    flags: dict[str, Any]


def _wish(config: Config, url: str, options: dict[str, Any], flags: dict[str, Any]) -> _Wish:
    """Validate the options and return them. Raises CommandFailed if they conflict with the
    configuration.
    """
    if url == "memory:":
        raise CommandFailed(
            "a worker cannot use an in-memory journal, which other processes cannot open: choose "
            "one with --journal sqlite:///FILE or postgresql://…"
        )
    known = config.queue_names
    if unknown := [name for name in options["queues"] if name not in known]:
        raise CommandFailed(
            f"unknown queue {unknown[0]!r}. Available: {', '.join(known)}. To add it, list "
            "it under queues in the configuration"
        )
    if options["name"] is not None and not options["name"].strip():
        raise CommandFailed(
            f"--name {options['name']!r} is not a valid name: give another, or leave --name out"
        )
    address = config.workers.metrics if options["metrics"] is None else options["metrics"]
    if address is not None and find_spec("prometheus_client") is None:
        raise CommandFailed(METRICS_NEED)
    try:
        metrics = None if address is None else split_address(address)
    except ValueError:
        raise CommandFailed(
            f"--metrics must be HOST:PORT, like 127.0.0.1:9464, not {address!r}"
        ) from None
    queues = tuple(dict.fromkeys(options["queues"])) or known
    return _Wish(
        url=url,
        queues=queues,
        engine=options["engine"] or config.workers.engine,
        slots=options["slots"] or config.workers.slots,
        name=f"{one_line(socket.gethostname(), HOST_MOST)}-{os.getpid()}"
        if options["name"] is None
        else options["name"],
        agents=options["agents"],
        metrics=metrics,
        flags=flags,
    )


async def _work(config: Config, wish: _Wish, tell: WorkerOutput) -> None:

    from treadle.cli.agent_option import module_hooks  # noqa: PLC0415  not needed for --help
    from treadle.cli.journal_option import open_runtime, shown_url  # noqa: PLC0415  not needed for --help
    from treadle.cli.worker_agents import Agents  # noqa: PLC0415  not needed for --help
    from treadle.workers.worker import Worker  # noqa: PLC0415  not needed for --help

    async with (
        _engine(wish) as engine,
        open_runtime(config, wish.url, hooks=module_hooks(config), unattended=True) as runtime,
    ):
        agents = Agents(config, runtime, wish.flags)
        agents.register(wish.agents)
        tell.follow(runtime, agents, counted=wish.metrics is not None)
        made = Worker(
            runtime,
            engine,
            name=wish.name,
            queues=wish.queues,
            slots=wish.slots,
            agent_of=tell.agent_of,
            grace_s=config.workers.grace_s,
            poll_s=config.workers.poll_s,
            schedules=agents.schedules(tell.warn),
        )
        with _metrics(wish, made, runtime, tell) as address:
            told = [
                f"journal {shown_url(wish.url)}",
                f"queues {', '.join(wish.queues)}",
                f"engine {wish.engine}",
                count(wish.slots, "slot"),
            ]
            first = " · ".join(
                [
                    f"treadle worker {one_line(wish.name)}",
                    *told,
                    *([] if address is None else [f"metrics {address}"]),
                ]
            )
            await _worked(made, runtime.journal, config.workers.grace_s, first, tell)


async def _worked(
    made: Worker, journal: Journal, grace_s: float, first: str, tell: WorkerOutput
) -> None:
    """Run the worker until it stops.

    Raises CommandFailed if its name is taken, AgentError for other errors at the start.
    """
    import anyio  # noqa: PLC0415  as above

    async def begins() -> None:
        await made.registered.wait()
        tell.say(first)

    wrong: AgentError | None = None
    async with made, anyio.create_task_group() as group:
        group.start_soon(begins)
        group.start_soon(_drain_on_signals, made, journal, grace_s, tell)
        try:
            await made.work()
        except AgentError as e:  # raised outside, where no task group wraps it
            wrong = e
        group.cancel_scope.cancel()
    if wrong is not None:
        raise CommandFailed(wrong.message) if wrong.kind is ErrorKind.BUSY else wrong
    left = await tell.left()
    tell.say(
        f"drained: {count(left, 'run')} left for other workers"
        if left
        else "drained: no runs are left here"
    )


@contextmanager
def _metrics(
    wish: _Wish, working: Worker, runtime: Runtime, tell: WorkerOutput
) -> Generator[str | None]:
    """Serve metrics and yield the address, or None if they are not configured.

    Raises AgentError(invalid) if the address cannot be bound.
    """
    if wish.metrics is None:
        yield None
        return
    from treadle.events.telemetry.workers import QueueDepths, WorkerMetrics, served  # noqa: PLC0415  only if metrics are configured

    tell.metrics = WorkerMetrics(
        working,
        QueueDepths(runtime.journal.queue),
        lambda: getattr(runtime.journal, "renewals_missed", 0),
    )
    with served(tell.metrics, *wish.metrics) as address:
        yield address


@asynccontextmanager
async def _engine(wish: _Wish) -> AsyncGenerator[Engine | None]:
    """Yield the engine, or None for the worker's own. Raises AgentError(invalid) if its library is
    not installed.
    """
    if wish.engine == "local":
        yield None
        return
    if wish.engine == "dbos":
        from treadle.workers.engines.dbos import DbosEngine  # noqa: PLC0415  needs an extra

        opened: Engine = DbosEngine.open(wish.url)
    else:
        from treadle.config.plugins import load_plugin  # noqa: PLC0415  only for a plug-in

        plugin = load_plugin("engines", wish.engine)
        if plugin is None:
            raise AgentError("invalid", f"there is no engine {wish.engine!r}")
        opened = plugin.called(wish.url)
    async with opened as engine:
        yield engine


async def _drain_on_signals(
    working: Worker, journal: Journal, grace_s: float, tell: WorkerOutput
) -> None:
    """Drain the worker on the first signal and stop immediately on the second. The third ends the
    process.
    """
    import anyio  # noqa: PLC0415  as above

    async def hurry_after_grace() -> None:
        await anyio.sleep(grace_s)
        journal.hurry()  # service managers rely on the grace period

    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as group:
            heard = 0
            async for number in signals:
                heard += 1
                if heard == 1:
                    group.start_soon(hurry_after_grace)
                    working.drain()
                    runs = (
                        f"{count(working.running, 'run')} in progress, which get "
                        f"{lasting(grace_s)} to end; a second signal ends them immediately"
                    )
                    tell.say(f"stopping: {runs if working.running else 'no run is in progress'}")
                else:
                    journal.hurry()
                    working.drain(at_once=True)
                    signal.signal(number, signal.SIG_DFL)
