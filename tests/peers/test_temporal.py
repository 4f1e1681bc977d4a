"""Runs as activities of Temporal workflows, against the real development server."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from tests.doubles import Gate, PlainTool, asks, call, says
from tests.peers.child import ROOT
from tests.peers.conftest import need_temporal
from tests.peers.temporal import TemporalServer
from tests.service.database.postgres import postgres_server, postgres_urls  # noqa: F401  fixtures
from tests.stores import sharded
from treadle import Agent, AgentError, Runtime
from treadle.testing import ScriptedModel
from treadle.types import Outcome, new_id

pytest.importorskip("temporalio", reason="needs Temporal: pip install 'treadle[temporal]'")

from temporalio.activity import ActivityCancellationDetails
from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.common import RawValue, WorkflowIDConflictPolicy
from temporalio.converter import DataConverter
from temporalio.exceptions import TemporalError
from temporalio.testing import ActivityEnvironment

from tests.peers.temporal_flows import Both, Quick
from tests.peers.temporal_worker import QUEUE, paid, payer, worker
from treadle.workers.engines.temporal import (
    AgentRun,
    OpenCall,
    RunAnswer,
    RunReply,
    TemporalRun,
    TreadlePlugin,
    answer_signal,
    priority_of,
)
from treadle.workers.engines.temporal.workflow import packed, unpacked

WITHIN_S = 60


@pytest.fixture
async def client(temporal_server: TemporalServer) -> Any:
    return await temporal_server.client()


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[Runtime]:
    async with Runtime.open(journal_in(tmp_path)) as opened:
        opened.agents.register(payer(tmp_path))
        yield opened


def journal_in(folder: Path) -> str:
    return f"sqlite:///{folder / 'journal.db'}"


def asked_for(**fields: Any) -> TemporalRun:
    """Its id is unique, because all tests have one server."""
    given: dict[str, Any] = {"agent": "payer", "text": "Pay.", "run_id": new_id("run")}
    return TemporalRun(**given | fields)


async def started(client: Any, flow: Any, request: TemporalRun) -> WorkflowHandle[Any, RunReply]:
    return await client.start_workflow(
        flow.run,
        request,
        id=request.run_id,
        task_queue=QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
    )


async def end_of(handle: WorkflowHandle[Any, Any]) -> Any:
    with anyio.fail_after(WITHIN_S):
        return await handle.result()


async def until(happened: Any) -> None:
    with anyio.fail_after(WITHIN_S):
        while not happened():
            await anyio.sleep(0.02)


@asynccontextmanager
async def working(
    server: TemporalServer, folder: Path, journal: str | None = None
) -> AsyncIterator[subprocess.Popen[bytes]]:
    """A worker in a process of its own."""
    arguments = (server.address, journal or journal_in(folder), str(folder))
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.peers.temporal_worker", *arguments],
            cwd=ROOT,
            stdout=log,
            stderr=log,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


# ---------------------------------------------------------------- runs


async def test_a_workflow_has_the_reply_of_its_run(
    client: Any, runtime: Runtime, tmp_path: Path
) -> None:
    request = asked_for(user_id="ada")
    async with worker(client, runtime):
        reply = await end_of(await started(client, AgentRun, request))
    assert (reply.outcome, reply.output_text, reply.waiting) == ("completed", "Done.", False)
    assert paid(tmp_path) == [reply.run_id] == [request.run_id]
    assert (await runtime.journal.info(request.run_id)).user_id == "ada"


async def test_a_workflow_has_several_runs_at_once(
    client: Any, runtime: Runtime, tmp_path: Path
) -> None:
    requests = [asked_for(), asked_for()]
    async with worker(client, runtime):
        handle = await client.start_workflow(
            Both.run, requests, id=new_id("both"), task_queue=QUEUE
        )
        replies = await end_of(handle)
    assert [reply.run_id for reply in replies] == [request.run_id for request in requests]
    assert sorted(paid(tmp_path)) == sorted(request.run_id for request in requests)


@pytest.mark.parametrize(
    ("details", "error"),
    [
        (ActivityCancellationDetails(timed_out=True), "Released"),
        (ActivityCancellationDetails(cancel_requested=True), None),
    ],
    ids=["missed", "cancelled"],
)
@pytest.mark.parametrize("times", [1, 2])
async def test_an_activity_that_is_cancelled_releases_its_run_and_says_so(
    runtime: Runtime,
    tmp_path: Path,
    details: ActivityCancellationDetails,
    error: str | None,
    times: int,
) -> None:
    """As a worker does it, which cancels the task of the activity."""
    (tmp_path / "hold").touch()
    request, environment = asked_for(), ActivityEnvironment()
    (run,) = (found for found in activities_of(runtime) if found.__name__ == "run")
    driving = asyncio.ensure_future(  # noqa: TID251  as Temporal's worker does
        environment.run(run, packed(request))
    )
    await until(lambda: paid(tmp_path))
    environment.cancel(details)
    if times > 1:
        await anyio.lowlevel.checkpoint()
        driving.cancel()
    with pytest.raises(TemporalError) as raised:
        await driving
    assert getattr(raised.value, "type", None) == error
    assert (await runtime.journal.info(request.run_id)).status == "stopped"


def activities_of(runtime: Runtime) -> Sequence[Callable[..., Any]]:
    found = TreadlePlugin(runtime).activities
    assert isinstance(found, Sequence)
    return found


async def test_a_run_that_is_delivered_again_and_late_has_its_effect_once(
    client: Any, runtime: Runtime, tmp_path: Path
) -> None:
    request = asked_for()
    async with worker(client, runtime):
        handles = [
            await client.start_workflow(Quick.run, request, id=new_id("flow"), task_queue=QUEUE)
            for _ in range(5)
        ]
        replies = [await end_of(handle) for handle in handles]
        late = await client.start_workflow(Quick.run, request, id=new_id("flow"), task_queue=QUEUE)
        replies.append(await end_of(late))
    assert {reply.output_text for reply in replies} == {"Done."}
    assert paid(tmp_path) == [request.run_id]


async def test_an_id_of_another_run_fails_the_workflow_at_once(
    client: Any, runtime: Runtime
) -> None:
    other = Agent(name="payer", model=ScriptedModel([says("Hello.")]))
    request = asked_for()
    await runtime.run(other, "Say hello.", run_id=request.run_id)
    async with worker(client, runtime):
        with pytest.raises(WorkflowFailureError) as failed:
            await end_of(await started(client, Quick, request))
    assert "exists with another prompt" in str(failed.value.cause.__cause__)


async def test_a_worker_without_the_agent_leaves_the_run_to_others(
    client: Any, runtime: Runtime, tmp_path: Path
) -> None:
    request = asked_for()
    async with Runtime.open(journal_in(tmp_path)) as bare, worker(client, bare):
        handle = await started(client, Quick, request)
        with anyio.fail_after(WITHIN_S):
            while not (tries := (await handle.describe()).raw_description.pending_activities) or (
                "has no agent 'payer'" not in tries[0].last_failure.message
            ):
                await anyio.sleep(0.05)
    async with worker(client, runtime):
        assert (await end_of(handle)).outcome == "completed"


async def test_an_output_that_temporal_would_refuse_stays_in_the_journal(
    client: Any, runtime: Runtime
) -> None:
    runtime.agents.register(Agent(name="writer", model=ScriptedModel([says("x" * 2_500_000)] * 2)))
    request = TemporalRun(agent="writer", text="Write.", run_id=new_id("run"))
    async with worker(client, runtime):
        reply = await end_of(await started(client, Quick, request))
    assert (reply.outcome, reply.output_text) == ("completed", None)
    stored = await runtime.replay(request.run_id)
    assert len(stored.text) == 2_500_000


@pytest.mark.parametrize(
    ("priority", "key"), [(1000, 1), (500, 1), (1, 2), (0, 3), (-1, 4), (-499, 4), (-500, 5)]
)
def test_priorities_become_those_of_temporal(priority: int, key: int) -> None:
    found = priority_of(priority, "ä" * 60)
    assert (found.priority_key, found.fairness_key) == (key, "ä" * 32)


async def test_the_activity_has_the_priority_of_its_run(client: Any, runtime: Runtime) -> None:
    request = asked_for(priority=700, tenant="acme")
    async with worker(client, runtime):
        handle = await started(client, Quick, request)
        await end_of(handle)
    scheduled = [
        event.activity_task_scheduled_event_attributes.priority
        for event in (await handle.fetch_history()).events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    assert [(one.priority_key, one.fairness_key) for one in scheduled] == [(1, "acme")]


# ---------------------------------------------------------------- people


async def test_a_signal_answers_a_run_that_waits(
    client: Any, runtime: Runtime, tmp_path: Path
) -> None:
    runtime.agents.register(payer(tmp_path, needs_approval=True))
    request = asked_for(agent="careful-payer", on_ask="wait")
    async with worker(client, runtime):
        handle = await started(client, AgentRun, request)
        reply = await waiting(handle)
        (open_call,) = reply.open_calls
        assert (open_call.run_id, open_call.call_id, open_call.tool) == (request.run_id, "a", "pay")
        assert paid(tmp_path) == []
        # a call that is not open changes nothing
        await handle.signal(answer_signal(request.run_id), RunAnswer(approve=["other"]))
        with anyio.fail_after(WITHIN_S):
            while "waits for an answer" not in ((await waiting(handle)).error or ""):
                await anyio.sleep(0.05)
        for _ in range(2):
            await handle.signal(answer_signal(request.run_id), RunAnswer(approve=["a"]))
        assert (await end_of(handle)).outcome == "completed"
    assert paid(tmp_path) == [request.run_id]


async def test_an_answer_that_an_earlier_attempt_applied_does_not_repeat_the_call(
    client: Any, runtime: Runtime, tmp_path: Path
) -> None:
    """The call was approved and made, and its process died: its outcome is unknown."""
    agent = payer(tmp_path, needs_approval=True)
    runtime.agents.register(agent)
    request = asked_for(agent="careful-payer", on_ask="wait", on_unknown="wait")
    async with worker(client, runtime):
        handle = await started(client, Quick, request)
        with anyio.fail_after(WITHIN_S):
            while not await runtime.journal.runs() or (
                (info := await runtime.journal.info(request.run_id)).status != "waiting"
            ):
                await anyio.sleep(0.02)
    (tmp_path / "hold").touch()
    async with working_journal(tmp_path, request.run_id):
        await until(lambda: paid(tmp_path))
    (tmp_path / "hold").unlink()
    async with worker(client, runtime):
        answer = RunAnswer(approve=["a"], seen=info.entries)
        await handle.signal(answer_signal(request.run_id), answer)
        with anyio.fail_after(WITHIN_S):
            while (await runtime.journal.info(request.run_id)).status != "waiting":
                await anyio.sleep(0.02)
        assert paid(tmp_path) == [request.run_id]
        await handle.signal(answer_signal(request.run_id), RunAnswer(results={"a": "It is paid."}))
        assert (await end_of(handle)).outcome == "completed"
    assert paid(tmp_path) == [request.run_id]


@asynccontextmanager
async def working_journal(folder: Path, run_id: str) -> AsyncIterator[None]:
    """A process that resumes the run with an approval, and is killed at the end."""
    program = (
        "import anyio, pathlib, sys\n"
        "from tests.peers.temporal_worker import payer\n"
        "from treadle import Runtime\n"
        "async def main():\n"
        "    folder = pathlib.Path(sys.argv[2])\n"
        "    async with Runtime.open(sys.argv[1]) as runtime:\n"
        "        agent = payer(folder, needs_approval=True)\n"
        "        await runtime.resume(sys.argv[3], agent, approve=['a'])\n"
        "anyio.run(main)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, journal_in(folder), str(folder), run_id], cwd=ROOT
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


async def waiting(handle: WorkflowHandle[Any, Any]) -> RunReply:
    with anyio.fail_after(WITHIN_S):
        while (reply := await handle.query(AgentRun.waiting)) is None:
            await anyio.sleep(0.05)
    return reply


def test_no_annotation_of_an_exchanged_value_is_a_text() -> None:
    """Temporal would evaluate it for each payload."""
    for kind in (TemporalRun, RunAnswer, RunReply, OpenCall):
        assert not [hint for hint in kind.__annotations__.values() if isinstance(hint, str)]


def test_values_are_exchanged_as_temporals_own_converter_writes_them() -> None:
    """Workflows outlive an upgrade, and users of Temporal read its history."""
    request = asked_for(
        inputs={"n": [1, {"a": None}]},
        metadata={"a": 1, "b": "x", "c": True, "d": 0.5},
        answer=RunAnswer(approve=["c1"], deny={"c2": "no"}, seen=7),
    )
    call = OpenCall(run_id="r", call_id="c1", tool="pay", arguments="{}")
    reply = RunReply(run_id="r", outcome="completed", output_text="ü", open_calls=[call])
    converter = DataConverter.default.payload_converter
    for value in (request, reply):
        ours, (theirs,) = packed(value).payload, converter.to_payloads([value])
        assert json.loads(ours.data) == json.loads(theirs.data)
        assert ours.metadata == theirs.metadata
        assert converter.from_payloads([ours], [type(value)]) == [value]
        assert unpacked(RawValue(theirs), type(value)) == value


# ---------------------------------------------------------------- ends before their time


@pytest.fixture(params=["sqlite", "shards"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a journal that processes share."""
    if request.param == "sqlite":
        return journal_in(tmp_path)
    url_of: Callable[[object], str] = request.getfixturevalue("postgres_urls")
    return sharded(tmp_path / "shards.yaml", {"a": url_of("a"), "b": url_of("b")})


async def test_a_worker_killed_in_a_once_tool_leaves_its_run_to_another(
    temporal_server: TemporalServer, client: Any, tmp_path: Path, journal: str
) -> None:
    (tmp_path / "hold").touch()
    request = asked_for()
    async with working(temporal_server, tmp_path, journal):
        handle = await started(client, Quick, request)
        await until(lambda: paid(tmp_path))
    (tmp_path / "hold").unlink()
    async with working(temporal_server, tmp_path, journal):
        reply = await end_of(handle)
    assert (reply.outcome, paid(tmp_path)) == ("completed", [request.run_id])
    async with Runtime.open(journal) as runtime:
        state = await runtime.journal.load(request.run_id)
    assert state.resumed == 1


@pytest.mark.parametrize(("on_cancel", "status"), [("kill", "finished"), ("release", "stopped")])
async def test_a_cancelled_workflow_kills_or_releases_its_run(
    client: Any, runtime: Runtime, tmp_path: Path, on_cancel: Any, status: str
) -> None:
    (tmp_path / "hold").touch()
    request = asked_for(on_cancel=on_cancel)
    async with worker(client, runtime):
        handle = await started(client, Quick, request)
        await until(lambda: paid(tmp_path))
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await end_of(handle)
        info = await runtime.journal.info(request.run_id)
    assert info.status == status
    assert info.outcome is (Outcome.CANCELLED if on_cancel == "kill" else None)


async def test_a_workflow_cancelled_while_its_run_waits_kills_it(
    client: Any, runtime: Runtime, tmp_path: Path
) -> None:
    runtime.agents.register(payer(tmp_path, needs_approval=True))
    request = asked_for(agent="careful-payer", on_ask="wait")
    async with worker(client, runtime):
        handle = await started(client, AgentRun, request)
        await waiting(handle)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await end_of(handle)
        info = await runtime.journal.info(request.run_id)
    assert (info.status, info.outcome) == ("finished", Outcome.CANCELLED)


async def test_a_worker_that_ends_releases_only_its_runs(
    client: Any, runtime: Runtime, tmp_path: Path
) -> None:
    """Runs of the application in the same runtime go on."""
    gate = Gate()

    async def stop(ctx: object, arguments: object) -> str:
        await gate.stop()
        return "ok"

    mine = Agent(
        name="mine",
        model=ScriptedModel([asks(call("stop", "s")), says("Mine.")]),
        tools=[PlainTool(name="stop", does=stop)],
    )
    (tmp_path / "hold").touch()
    request, texts = asked_for(), list[str]()

    async def run_mine() -> None:
        texts.append((await runtime.run(mine, "go")).text)

    async with anyio.create_task_group() as group:
        group.start_soon(run_mine)
        await gate.reached.wait()
        async with worker(client, runtime):
            handle = await started(client, Quick, request)
            await until(lambda: paid(tmp_path))
        assert (await runtime.journal.info(request.run_id)).status == "stopped"
        gate.opened.set()
    assert texts == ["Mine."]
    (tmp_path / "hold").unlink()
    async with worker(client, runtime):
        assert (await end_of(handle)).outcome == "completed"
    assert paid(tmp_path) == [request.run_id]


async def test_a_server_that_is_killed_and_comes_back_loses_no_run(tmp_path: Path) -> None:
    need_temporal()
    with TemporalServer(tmp_path) as server:
        (tmp_path / "hold").touch()
        request = asked_for()
        async with working(server, tmp_path):
            handle = await started(await server.client(), Quick, request)
            await until(lambda: paid(tmp_path))
            server.kill()
            (tmp_path / "hold").unlink()
            server.start()
            again = (await server.client()).get_workflow_handle(handle.id, result_type=RunReply)
            reply = await end_of(again)
    assert (reply.outcome, paid(tmp_path)) == ("completed", [request.run_id])


async def test_a_kill_of_a_run_that_was_never_started_is_nothing(
    client: Any, runtime: Runtime
) -> None:
    request = asked_for()
    handle = await started(client, Quick, request)
    await handle.cancel()
    async with worker(client, runtime):
        with pytest.raises(WorkflowFailureError):
            await end_of(handle)
    with pytest.raises(AgentError, match="unknown run"):
        await runtime.journal.info(request.run_id)
