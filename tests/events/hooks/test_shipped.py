"""The hooks that come with the package: a guard over calls, a memory of answers, and a file of who
did what.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import PlayedModel, Seen, agent, asks, call, end, open_runtime, says, watch
from treadle import Agent, AgentError, Approve, Deny, Hook, Settings, ToolContext, Usage, tool
from treadle._internal.redaction import Secret
from treadle.config import Config
from treadle.events.hooks import Audit, Cache, Guard, Rule
from treadle.messages import events
from treadle.models.model import TextDelta
from treadle.testing import ScriptedModel
from treadle.tools.approval import ApprovalRequest

KEY = "sk-ant-0123456789abcdef0123456789abcdef"
paid: list[int] = []


@tool(effect="once")
def pay(amount: int) -> str:
    """Pays."""
    paid.append(amount)
    return f"paid {amount}"


@tool(effect="pure")
def look(what: str) -> str:
    """Looks."""
    return f"{what}: there"


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    paid.clear()


async def run(hook: Hook, *script: dict[str, Any], **options: Any) -> Seen:
    return await watch(
        ScriptedModel(script), pay, look, runtime=open_runtime(hooks=[hook]), **options
    )


# ---------------------------------------------------------------- Guard


def much(arguments: dict[str, Any]) -> bool:
    return arguments["amount"] > 100


@pytest.mark.parametrize(
    ("rules", "results"),
    [
        ([], ["paid 500"]),
        ([Rule("pay")], ["Not run: a rule for pay applies"]),
        ([Rule("p*", reason="nothing is paid here")], ["Not run: nothing is paid here"]),
        ([Rule("pa")], ["paid 500"]),
        ([Rule("look")], ["paid 500"]),
        ([Rule("pay", when=much)], ["Not run: a rule for pay applies"]),
        ([Rule("pay", when=lambda a: a["amount"] > 1000)], ["paid 500"]),
        (
            [Rule("pay", when=lambda a: a["sum"] > 1)],
            ["Not run: the hook Guard.before_tool failed: KeyError: 'sum'"],
        ),
        ([Rule("pay", reason="first"), Rule("*", "ask", reason="second")], ["Not run: first"]),
    ],
)
async def test_a_rule_is_about_the_name_and_the_arguments_of_a_call(
    rules: list[Rule], results: list[str]
) -> None:
    seen = await run(Guard(*rules), asks(call("pay", amount=500)), says("done"))
    assert seen.results == results


async def test_a_call_that_a_rule_asks_about_waits_for_somebody() -> None:
    async def approver(request: ApprovalRequest) -> Approve | Deny:
        return Approve() if request.arguments == {"amount": 500} else Deny("no")

    guard = Guard(Rule("pay", "ask", when=much, reason="that is much"))
    seen = await run(
        guard,
        asks(call("pay", amount=50), call("pay", amount=500), call("pay", amount=600)),
        says("done"),
        on_approval=approver,
    )
    assert sorted(paid) == [50, 500]
    assert seen.results[2].startswith("Not run: the user declined")
    assert [event.reason for event in seen.of(events.ApprovalRequested)] == ["that is much"] * 2


async def test_a_rule_with_a_condition_fits_arguments_that_nobody_can_read() -> None:
    seen = await run(
        Guard(Rule("pay", when=much)),
        asks({"name": "pay", "arguments": '{"amount": 1'}),
        says("done"),
    )
    assert seen.results == ["Not run: a rule for pay applies"]


def test_what_is_no_rule_is_refused() -> None:
    with pytest.raises(AgentError, match="is not a valid rule"):
        Guard("bash")  # type: ignore[arg-type]
    with pytest.raises(AgentError, match="is not a valid rule"):
        Guard(Rule("bash", "allow"))  # type: ignore[arg-type]


# ---------------------------------------------------------------- Cache


@pytest.fixture(params=["memory", "folder"])
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> Cache:
    return Cache(tmp_path / "answers" if request.param == "folder" else None, tools=["look"])


LOOKING = [asks(call("look", "c1", what="tea")), says("there is tea")]


async def test_the_same_request_is_answered_without_a_model(cache: Cache) -> None:
    first = await run(cache, *LOOKING)
    again = await run(cache)
    assert (again.result.text, again.results, again.result.turn_count) == (
        first.result.text,
        first.results,
        2,
    )
    assert (again.result.metrics.usage, cache.hits, cache.misses) == (Usage(), 2, 2)
    other = await run(cache, says("something else"), prompt="another")
    assert (other.result.text, cache.hits) == ("something else", 2)


async def test_an_answer_with_a_call_of_another_tool_is_not_kept(cache: Cache) -> None:
    await run(cache, asks(call("pay", "p", amount=5)), says("paid"))
    seen = await run(cache, says("I would rather not"))
    assert (seen.result.text, paid) == ("I would rather not", [5])


@pytest.mark.parametrize(
    "answer", [says("cut", stop="max_tokens"), says("no", stop="refusal"), says("")]
)
async def test_an_answer_that_is_not_whole_is_not_kept(
    cache: Cache, answer: dict[str, Any]
) -> None:
    await run(cache, answer, says("more"), says("more"), says("more"))
    hits = cache.hits
    await run(cache, says("whole"))
    assert cache.hits == hits


async def test_an_answer_that_carries_something_for_the_next_request_of_its_run_is_not_kept(
    cache: Cache,
) -> None:
    model = PlayedModel(
        [TextDelta("one"), end(provider_data='{"container":"c1"}')], [TextDelta("two"), end()]
    )
    rt = open_runtime(hooks=[cache])
    assert [(await rt.run(agent(model), "go")).text for _ in range(3)] == ["one", "two", "two"]


async def test_other_settings_other_tools_and_another_model_are_other_requests(
    cache: Cache,
) -> None:
    rt = open_runtime(hooks=[cache])

    async def said(words: str, *tools: Any, name: str = "script:a", **options: Any) -> str:
        return (
            await rt.run(agent(ScriptedModel([says(words)], name=name), *tools), "go", **options)
        ).text  # type: ignore[arg-type]

    assert await said("one") == "one"
    assert await said("two") == "one"
    assert await said("three", settings=Settings(temperature=0.5)) == "three"
    assert await said("four", look) == "four"
    assert await said("five", name="script:b") == "five"
    assert await said("six", settings=Settings(max_tokens=77)) == "one"


@pytest.mark.parametrize("folder", [False, True])
async def test_no_more_answers_are_kept_than_there_may_be(folder: bool, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "answers" if folder else None, size=3)
    for i in range(5):
        await run(cache, says("x"), prompt=f"prompt {i}")
        if folder:
            for age, file in enumerate(
                sorted((tmp_path / "answers").iterdir(), key=lambda f: f.stat().st_mtime_ns)
            ):
                os.utime(file, ns=(age, age))
    assert cache.hits == 0
    await run(cache, prompt="prompt 4")
    await run(cache, says("new"), prompt="prompt 0")
    assert cache.hits == 1
    assert not folder or len(list((tmp_path / "answers").iterdir())) == 3


async def test_a_folder_is_the_users_own_outlives_the_process_and_a_broken_file_is_none(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "answers"
    await run(Cache(folder), says("kept"))
    (file,) = folder.iterdir()
    assert (stat.S_IMODE(folder.stat().st_mode), stat.S_IMODE(file.stat().st_mode)) == (
        0o700,
        0o600,
    )
    assert (await run(Cache(folder))).result.text == "kept"
    file.write_bytes(b'{"parts": [')
    assert (await run(Cache(folder), says("anew"))).result.text == "anew"
    assert (await run(Cache(folder))).result.text == "anew"


async def test_an_answer_that_cannot_be_put_in_its_place_leaves_nothing_behind(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "answers"
    await run(Cache(folder), says("kept"))
    (file,) = folder.iterdir()
    file.unlink()
    (file / "in the way").mkdir(parents=True)
    assert (await run(Cache(folder), says("ok"))).result.text == "ok"
    assert [*folder.iterdir()] == [file]


async def test_a_folder_that_cannot_be_written_harms_no_run(tmp_path: Path) -> None:
    (tmp_path / "answers").write_text("a file")
    seen = await run(Cache(tmp_path / "answers"), says("ok"))
    assert seen.result.text == "ok"
    assert any(
        "the hook Cache.after_model failed" in event.text for event in seen.of(events.Warned)
    )


# ---------------------------------------------------------------- Audit


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_each_thing_that_a_run_does_is_a_line_of_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    seen = await run(Audit(path), asks(call("pay", "p", amount=5), call("nope", "n")), says("done"))
    told = lines(path)
    kinds = [
        "run_start",
        "message",
        "tool_call",
        "tool_call",
        "warning",
        "tool_call_end",
        "tool_call_start",
        "tool_call_end",
        "message",
        "run_end",
    ]
    assert [line["type"] for line in told] == kinds
    assert {line["run_id"] for line in told} == {seen.result.run_id}
    assert [line["result"] for line in told if line["type"] == "tool_call_end"][1:] == ["paid 5"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_line_is_in_the_file_before_the_run_goes_on_and_holds_no_key(
    tmp_path: Path,
) -> None:
    path, found = tmp_path / "audit.jsonl", list[str]()

    @tool
    def peek(ctx: ToolContext[Any]) -> str:
        found.append(lines(path)[-1]["type"])
        return f"the key is {KEY}"

    rt = open_runtime(hooks=[Audit(path)], config=Config(known_secrets=frozenset({Secret(KEY)})))
    await rt.run(
        agent([says(f"I say {KEY}", tool_calls=[call("peek", "p")]), says("done")], peek), "go"
    )
    assert found == ["tool_call_start"]
    assert KEY not in path.read_text()


async def test_runs_that_calls_start_are_in_the_file_too(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    child = Agent(name="helper", model=ScriptedModel([says("ok")]))
    boss = Agent(
        name="boss",
        model=ScriptedModel([asks(call("helper", prompt="x")), says("done")]),
        tools=[child],
    )
    result = await open_runtime(hooks=[Audit(path)]).run(boss, "go")
    told = lines(path)
    below = [line for line in told if line.get("parent_run_id") == result.run_id]
    assert [line["type"] for line in below] == ["run_start", "message", "run_end"]


async def test_a_file_that_cannot_be_written_is_told_once_and_tried_again(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "logs" / "audit.jsonl")
    rt = open_runtime(hooks=[audit])
    seen = await watch([asks(call("look", what="x")), says("done")], look, runtime=rt)
    (warning,) = seen.of(events.Warned)
    assert "the audit file" in warning.text
    assert "No such file or directory" in warning.text
    again = await watch([says("done")], runtime=rt)
    assert again.of(events.Warned) == []
    (tmp_path / "logs").mkdir()
    await watch([says("done")], runtime=rt)
    assert [line["type"] for line in lines(audit.path)] == ["run_start", "message", "run_end"]
    (tmp_path / "logs").rename(tmp_path / "gone")
    assert len((await watch([says("done")], runtime=rt)).of(events.Warned)) == 1
