"""`treadle chat`: starts the terminal UI of treadle.tui with the command's options. Entry points:
`chat`.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from treadle.cli.agent_option import agent_options, chosen_agent, module_hooks
from treadle.cli.exits import CommandFailed, failing, silence
from treadle.cli.help import HELP
from treadle.cli.journal_option import journal_url, open_runtime
from treadle.cli.run_options import chat_options, check_directory, configured, settings_of
from treadle.config import Config, home
from treadle.types import Limits

if TYPE_CHECKING:
    from treadle.runtime.runtime import Runtime
    from treadle.tui.conversation import RunSetting

LAST = "last"
HISTORY = "history"
"""Name of the input history file in Treadle's own folder."""


@click.command(context_settings=HELP)
@agent_options
@chat_options
@click.option(
    "--resume",
    is_flag=False,
    flag_value=LAST,
    metavar="[ID]",
    help="Open a conversation again: the last one, or the one of this id.",
)
def chat(resume: str | None, **options: Any) -> None:
    """Talk with an agent in the terminal: see its work, approve it, steer it, go back.

    It needs a terminal; without one, use `treadle run`. Type /help inside for keys and commands.
    Limits apply to each message; by default there are none.
    """
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)):
        raise CommandFailed(
            'there is no terminal here: use `treadle run "what to do"`, which needs none'
        )
    check_directory(options["cwd"])
    with failing():
        config = configured(options, cwd=options["cwd"])
        cwd = options["cwd"].resolve()
        from treadle.tui import start  # noqa: PLC0415  --help needs none of it

        wants_demo = start.chat(
            start.StartRequest(
                config=config,
                cwd=cwd,
                history=Path(config.home or home(os.environ)) / HISTORY,
                reload=partial(configured, options, cwd=options["cwd"]),
                setting=partial(_setting, cwd, options),
                runtime=lambda config: open_runtime(
                    config, journal_url(config, options["journal"]), hooks=module_hooks(config)
                ),
                session=partial(_session, resume),
            )
        )
    if wants_demo:
        from treadle.cli.demo import demo  # noqa: PLC0415  only for a first start

        click.get_current_context().invoke(demo)
    try:
        sys.stdout.flush()
    except OSError:  # the terminal is gone
        silence(sys.stdout)


def _setting(
    cwd: Path, options: dict[str, Any], config: Config
) -> tuple[RunSetting, tuple[str, ...]]:
    from treadle.tui.conversation import RunSetting  # noqa: PLC0415  brings the runtime; the first frame must not wait for it

    chosen = chosen_agent(config, cwd, options, attended=True)
    said = msgspec.structs.asdict(chosen.limits)
    limits = Limits(
        **{
            name: value
            for name, value in said.items()
            if config.origin("limits", name).source != "default"
        }
    )
    setting = RunSetting(
        agent=chosen.agent,
        cwd=cwd,
        mode=config.defaults.mode,
        limits=limits,
        settings=settings_of(options),
        inputs=chosen.inputs,
        others=chosen.others,
    )
    return setting, (*config.warnings, *chosen.warnings)


def _session(wanted: str | None, runtime: Runtime) -> str | None:
    from treadle.cli.session_lookup import find_session  # noqa: PLC0415  only for --resume

    return None if wanted is None else find_session(runtime.sessions, wanted).id
