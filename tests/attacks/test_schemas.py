"""A schema of someone else never stops or eats the process: it is refused, or each check by it is
bounded.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
from typing import Any

import pytest

from tests.attacks import SEEDS, chance
from tests.attacks.limited import limited
from tests.attacks.schemas import KINDS, hostile, value
from tests.cli.conftest import Cli
from tests.cli.conftest import cli as cli
from treadle.errors import AgentError
from treadle.tools.function.given import GivenArguments
from treadle.tools.schemas.bounds import Bounds, TooMuch, states
from treadle.tools.schemas.checked import CheckedSchema
from treadle.tools.schemas.problems import missing
from treadle.tools.tool import InvalidArguments

CPU_S = 20


class CpuLimit:
    """Ends a piece of the test that takes more seconds of the processor."""

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        signal.signal(signal.SIGVTALRM, self._over)
        signal.setitimer(signal.ITIMER_VIRTUAL, self._seconds)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def _over(self, *_: object) -> None:
        raise AssertionError(f"it took more than {self._seconds} s of the processor")


@pytest.mark.parametrize("kind", KINDS)
def test_a_hostile_schema_takes_neither_time_nor_memory(kind: str) -> None:
    """In a process with 2 GiB and 20 seconds of a processor for all seeds: what has no end is
    killed there.
    """
    lines = [
        json.dumps(
            [
                hostile(c := chance(seed, kind), kind),
                [{}, value(c), {"q": "x" * 20_000, "p0": "a" * 20_000}],
            ]
        )
        for seed in SEEDS
    ]
    done = subprocess.run(
        limited(CPU_S, "tests.attacks.checking"),
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["ok"] * len(lines), (done.returncode, done.stderr[-500:])


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"doubling_in_values"}))
@pytest.mark.parametrize("seed", SEEDS)
def test_a_schema_that_unfolds_to_too_much_is_refused_before_it_is_compiled(
    kind: str, seed: int
) -> None:
    with pytest.raises(TooMuch):
        Bounds(hostile(chance(seed, kind), kind))


@pytest.mark.parametrize("seed", SEEDS)
def test_of_a_recursive_schema_only_a_value_that_takes_too_long_is_refused(seed: int) -> None:
    made = GivenArguments("t", "d", hostile(chance(seed, "recursive"), "doubling_in_values"))
    refused = 0
    for opens, closes in (('{"a":', "}"), ("[", "]")):
        try:
            made.parse(f'{{"a":{opens * 60}1{closes * 60}}}')
        except InvalidArguments as e:
            refused += "takes too long" in str(e)
    assert refused == 1
    with contextlib.suppress(InvalidArguments):
        made.parse("{}")


def test_a_check_that_takes_too_long_is_refused_before_it_begins() -> None:
    step = {"properties": {"a": {"$ref": "#/$defs/n"}}}
    checked = CheckedSchema(
        {"type": "object", "$ref": "#/$defs/n", "$defs": {"n": {"allOf": [step, step]}}},
        "this is",
        "schema",
    )
    text = '{"a":' * 24 + "1" + "}" * 24
    with pytest.raises(TooMuch, match="takes too long"):
        checked.fits(json.loads(text), len(text))


def test_a_usual_recursive_schema_takes_deep_and_long_values() -> None:
    tree = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "children": {"type": "array", "items": {"$ref": "#"}},
        },
    }
    anything = {
        "anyOf": [
            {"type": "string"},
            {"type": "array", "items": {"$ref": "#/$defs/j"}},
            {"type": "object", "additionalProperties": {"$ref": "#/$defs/j"}},
        ]
    }
    deep = json.loads('{"name":"n","children":[' * 60 + "]}" * 60)
    wide: dict[str, Any] = {
        "name": "n",
        "children": [{"name": str(n), "children": []} for n in range(3_000)],
    }
    for schema in (
        tree,
        {
            "type": "object",
            "properties": {"children": {"$ref": "#/$defs/j"}},
            "$defs": {"j": anything},
        },
    ):
        made = GivenArguments("t", "d", schema)
        for given in (deep, wide):
            assert made.parse(json.dumps(given)) == given


def test_patterns_are_measured_with_their_repetitions_written_out() -> None:
    assert states("(a{0,1000}){0,50}N") > 50_000
    assert states(r"^[a-z]{1,64}@[a-z0-9.]{1,253}$") < 10_000
    assert states("a{") < 10
    assert states("(((") < 10
    assert states("x{3}{4}{5}") >= 60
    assert states(r"\p{L}{60}") > 15_000
    assert states(r"\pL{60}") > 15_000
    assert states(r"[\p{L}[x]y[z]]{60}") > 15_000
    assert states(r"\(?xyz") < 10
    with pytest.raises(TooMuch, match="the flag x"):
        states("(?i-s)((?x:(a{ 0 , 1000 }){ 0 , 50 }N))")


@pytest.mark.parametrize("kind", [{"a": 1}, [["array"]], [{}], 5, "x" * 100_000])
def test_a_type_of_no_form_is_refused_in_a_few_words(kind: object) -> None:
    with pytest.raises(AgentError, match=r"parameters\.a+ has the type") as refused:
        GivenArguments("t", "d", {"type": "object", "properties": {"a" * 100: {"type": kind}}})
    assert len(str(refused.value)) < 500


def test_ids_that_each_draft_reads_alike_lead_where_they_say() -> None:
    """Only the part with the id has the name to which its reference leads."""
    inner = {"$id": "http://h/", "$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}
    schema = {
        "type": "object",
        "properties": {"a": inner},
        "$defs": {"n": {"allOf": [{"$ref": "#/properties/a"}] * 2}},
    }
    assert GivenArguments("t", "d", schema).parse('{"a":1}') == {"a": 1}


def test_a_hostile_definition_of_a_project_leaves_the_others_alone(cli: Cli) -> None:
    agents = cli.home / ".treadle" / "agents"
    agents.mkdir(parents=True)
    patterns = {f"p{n}": {"pattern": "(a{0,1000}){0,50}N"} for n in range(1_400)}
    (agents / "bad.md").write_text(
        f"---\ndescription: bad\noutput: {json.dumps({'type': 'object', 'properties': patterns})}\n---\nHello.\n"
    )
    (agents / "good.md").write_text("---\ndescription: good\n---\nHello.\n")
    assert "good" in cli("agents", "list").out
    checked = cli("agents", "check")
    assert "states" in checked.out + checked.err
    assert cli("run", "hello", "--agent", "good", "--model", cli.script({"text": "ok"})).code == 0


def test_an_error_names_the_limit() -> None:
    with pytest.raises(AgentError, match=r"unfold to .* states; the limit is 20,000"):
        GivenArguments(
            "t", "d", {"type": "object", "properties": {"a": {"pattern": "(a{0,1000}){0,50}N"}}}
        ).parse("{}")


def test_wide_alternatives_are_explained_in_bounded_work() -> None:
    levels: dict[str, Any] = {
        f"w{n}": {"anyOf": [{"$ref": f"#/$defs/w{n + 1}"}] * 60} for n in range(8)
    }
    root = {
        "$defs": {**levels, "w8": {"type": "string", "description": "A name."}},
        "properties": {"q": {"$ref": "#/$defs/w0"}},
    }
    with CpuLimit(10):
        assert missing(("q",), root).text == "missing; expected string: A name."
