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
from treadle.policy.sandboxes import find_sandbox
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
    sandbox = find_sandbox(own if own.is_dir() else None)
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
        yield "note", "nothing was tried, since none works"


def _standing(standing: SandboxStatus, wanted: str) -> tuple[State, str]:
    if wanted == "off":
        return (
            "note",
            f"defaults.sandbox is off: what would run unasked in it asks ({standing.text})",
        )
    if standing.works:
        return "ok", standing.text
    if wanted == "on":
        return "bad", f"{standing.text}. defaults.sandbox is on, so no run with commands begins"
    return (
        "note",
        (
            f"{standing.text}. Until then what would run unasked in it asks; in mode full nothing "
            "confines commands"
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
                f"commands of mode full reach the hosts of permissions.network ({hosts}), and all "
                "of this machine; that is unproven"
            ),
        )
    network = egress_to(listed)
    try:
        await network.open(partial(isolated, sandbox.program))
    except OSError as e:
        return (
            "note",
            (
                "commands of mode full have no network, because one of their own cannot be made "
                f"here: {e}"
            ),
        )
    finally:
        await network.aclose()
    return (
        "ok",
        f"commands of mode full reach the hosts of permissions.network ({hosts}) and nothing else",
    )


def _escapes(sandbox: Sandbox, base: Path) -> Iterator[tuple[State, str]]:
    from treadle.policy.sandboxes.bubblewrap import Bubblewrap  # noqa: PLC0415  only for --full
    from treadle.policy.sandboxes.escapes import ATTEMPTS, try_escape  # noqa: PLC0415  only for --full
    from treadle.policy.sandboxes.limits import Group  # noqa: PLC0415  only for --full

    if not isinstance(sandbox, Bubblewrap):
        yield (
            "note",
            f"the ways out are known for bubblewrap only: what {sandbox.name} holds is unproven",
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
            f"{held} of {len(ATTEMPTS) - skipped} ways out were tried and held, in "
            f"{time.monotonic() - begun:.0f} s"
        ),
    )
    if skipped:
        yield (
            "note",
            (
                "memory and processes are limited for each process only: this user may make no "
                f"control group ({skipped} ways out were not tried)"
            ),
        )
