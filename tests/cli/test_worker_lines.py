"""What `treadle worker -v` says of the runs that it drives."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from tests.doubles import says
from treadle import Agent, Runtime
from treadle._internal.redaction import Redactor
from treadle.cli.worker_agents import Agents
from treadle.cli.worker_lines import WorkerOutput
from treadle.journal.run_info import RunInfo
from treadle.messages.events import RunEnd
from treadle.testing import ScriptedModel
from treadle.types import Outcome


class Nobody:
    async def of(self, info: RunInfo) -> Agent[Any, Any] | None:
        return None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "completed · 1 turn"),
        (
            {"id": msgspec.UNSET, "outcome": Outcome.ERROR},
            "released unfinished: another worker continues it\n",
        ),
        ({"id": msgspec.UNSET, "outcome": Outcome.APPROVAL_NEEDED}, "approval_needed · 1 turn"),
    ],
    ids=["over", "cut off", "waits"],
)
async def test_an_end_that_no_journal_has_is_none(
    changes: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Runtime() as runtime:
        run_id = (
            await runtime.run(Agent(name="greeter", model=ScriptedModel([says("hello")])), "hi")
        ).run_id
        told = WorkerOutput(Redactor(()), quiet=False, verbose=True)
        told.follow(runtime, cast("Agents", Nobody()), counted=False)
        await told.agent_of(await runtime.journal.info(run_id))
        end = (await runtime.events(run_id))[-1]
        assert isinstance(end, RunEnd)
        told.put(msgspec.structs.replace(end, **changes))
    assert f"< {run_id} {said}" in capsys.readouterr().err
