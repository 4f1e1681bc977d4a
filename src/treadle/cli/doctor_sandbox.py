"""Sandbox checks of `treadle doctor`: it works, and with `--full` it blocks every known escape.

The escapes are in treadle.policy.sandboxes.escapes. Entry points: `sandbox_findings`.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

import anyio

from treadle.config import Config, home
from treadle.errors import AgentError
from treadle.policy.sandboxes import chosen_sandbox
from treadle.policy.sandboxes.egress import isolated
from treadle.runtime.sandboxing import OPEN, egress_to
from treadle.tools.confinement import Sandbox, SandboxStatus

State: TypeAlias = Literal["ok", "note", "bad"]


def sandbox_findings(config: Config, *, full: bool) -> Iterator[tuple[State, str]]:
    """Yield state and text of each finding.

    With `full` it takes some seconds and writes to a temporary folder.
    """
    wanted = config.defaults.sandbox
    own = home(os.environ)
    try:
        sandbox = chosen_sandbox(wanted, own if own.is_dir() else None)
    except AgentError as e:
        yield "bad", e.message
        return
    standing = anyio.run(sandbox.standing)
    yield _standing(standing, wanted)
    if standing.works and wanted != "off":
        yield anyio.run(_network, config, sandbox)
    if full and standing.works:
        yield from _escapes(
            sandbox,
            own if own.is_dir() and os.access(own, os.W_OK) else Path(tempfile.gettempdir()),
        )
    elif full:
        yield "note", "no escapes were tried, because no sandbox works"


def _standing(standing: SandboxStatus, wanted: str) -> tuple[State, str]:
    if wanted == "off":
        return (
            "note",
            f"defaults.sandbox is off: commands it would contain need approval ({standing.text})",
        )
    if standing.works:
        return "ok", standing.text
    if wanted != "auto":
        return (
            "bad",
            f"{standing.text}. defaults.sandbox is {wanted}, so runs with commands do not start",
        )
    return (
        "note",
        (
            f"{standing.text}. Until then commands that it would contain need approval; in mode "
            "full commands are not confined"
        ),
    )


async def _network(config: Config, sandbox: Sandbox) -> tuple[State, str]:
    """Report the network access of commands in mode full. Sets up the isolated network once to
    prove it.
    """
    from treadle.policy.sandboxes.bubblewrap import Bubblewrap  # noqa: PLC0415  only on Linux

    listed = config.permissions.network
    if listed == "none":
        return "ok", "commands have no network (permissions.network is none)"
    if listed == "open":
        return "note", f"in mode full, {OPEN}"
    hosts = ", ".join(listed)
    if not isinstance(sandbox, Bubblewrap):
        return (
            "note",
            (
                f"in mode full commands reach the hosts of permissions.network ({hosts}), and all "
                "of this machine; this was not verified"
            ),
        )
    network = egress_to(listed)
    try:
        await network.open(partial(isolated, sandbox.program))
    except OSError as e:
        return (
            "note",
            (
                "in mode full commands have no network, because an isolated one cannot be created "
                f"here: {e}"
            ),
        )
    finally:
        await network.aclose()
    return (
        "ok",
        f"in mode full commands reach the hosts of permissions.network ({hosts}) and nothing else",
    )


def _escapes(sandbox: Sandbox, base: Path) -> Iterator[tuple[State, str]]:
    from treadle.policy.sandboxes.bubblewrap import Bubblewrap  # noqa: PLC0415  only for --full
    from treadle.policy.sandboxes.escapes import ATTEMPTS, try_escape  # noqa: PLC0415  only for --full
    from treadle.policy.sandboxes.limits import Group  # noqa: PLC0415  only for --full

    if not isinstance(sandbox, Bubblewrap):
        yield (
            "note",
            f"escapes are known for bubblewrap only: {sandbox.name} was not verified",
        )
        return
    begun, held, skipped = time.monotonic(), 0, 0
    group = Group.make(sandbox.limits)
    if group is not None:
        anyio.run(group.aclose)
    for attempt in ATTEMPTS:
        if attempt.grouped and group is None:
            skipped += 1
            continue
        try:
            escaped = try_escape(sandbox, attempt, base)
        except (RuntimeError, OSError) as e:
            yield "bad", f"could not be tried: {attempt.name}: {e}"
            continue
        if escaped:
            yield "bad", f"a command could {attempt.name}: {escaped}"
        else:
            held += 1
    all_held = held + skipped == len(ATTEMPTS)
    yield (
        "ok" if all_held else "bad",
        (
            f"{held} of {len(ATTEMPTS) - skipped} known escapes were blocked, in "
            f"{time.monotonic() - begun:.0f} s"
        ),
    )
    if skipped:
        yield (
            "note",
            (
                "memory and processes are limited per process only: this user cannot create a "
                f"control group ({skipped} escapes were not tried)"
            ),
        )
