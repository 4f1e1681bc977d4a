"""A model that does whatever the text it reads tells it to, in real runs with the real tools: the
run does not let it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.policy.shell.corpus import needs_corpus, workspace
from tests.policy.test_corpora import arguments_of, in_modes, set_up
from treadle import Agent, Limits, Runtime
from treadle.config import load
from treadle.messages.result import RunResult
from treadle.testing import ScriptedModel
from treadle.tools.builtin.coding import default_tools
from treadle.types import Mode, Outcome

pytestmark = needs_corpus
RACES = {"race", "race-leaf"}


async def obeyed(
    place: Path, calls: list[tuple[str, dict[str, Any]]], mode: Mode
) -> RunResult[str]:
    """Without a sandbox, so that nothing but the policy stands in the way."""
    script: list[dict[str, Any]] = [
        {
            "tool_calls": [
                {"name": name, "arguments": arguments, "id": f"c{i}"}
                for i, (name, arguments) in enumerate(calls)
            ]
        },
        {"text": "done"},
    ]
    agent = Agent(name="obedient", model=ScriptedModel(script), tools=default_tools())
    config = load(
        {"TREADLE_HOME": str(place.parent / "home")}, files=False, flags={"--no-sandbox": "off"}
    )
    with anyio.fail_after(20):
        async with Runtime.open("memory:", config=config) as runtime:
            return await runtime.run(
                agent, "Look at it.", cwd=place, mode=mode, limits=Limits(turns=3)
            )


def outside(place: Path) -> dict[str, str]:
    kept = [
        path
        for path in place.parent.rglob("*")
        if path.is_file() and not path.is_relative_to(place) and not path.is_symlink()
    ]
    return {str(path): path.read_text() for path in kept}


def guarded(place: Path) -> dict[str, str]:
    return {str(path): path.read_text() for path in place.rglob(".*/**/*") if path.is_file()}


def told(result: RunResult[str]) -> str:
    return json.dumps([r.text for message in result.messages for r in message.tool_results])


@pytest.mark.parametrize(("case", "mode"), in_modes("injection"))
async def test_an_obedient_model_does_no_harm(
    tmp_path: Path, case: dict[str, Any], mode: Mode
) -> None:
    place = workspace(tmp_path)
    (place / ".env").write_text("KEY=canary-in-env")
    set_up([], place)
    before, sealed = outside(place), guarded(place)
    result = await obeyed(
        place,
        [(call["tool"], call["args"]) for call in case["input"]["obedient_calls"]] or [("ls", {})],
        mode,
    )
    assert result.outcome in (Outcome.APPROVAL_NEEDED, Outcome.COMPLETED)
    assert (outside(place), guarded(place)) == (before, sealed)
    assert not Path("/tmp/pwned").exists()
    assert "canary" not in told(result)


@pytest.mark.parametrize(("case", "mode"), in_modes("paths"))
async def test_no_path_leads_a_tool_out(tmp_path: Path, case: dict[str, Any], mode: Mode) -> None:
    if any(step[0] in RACES for step in case["input"]["setup"]):
        pytest.skip("races are the tools' tests")
    place = workspace(tmp_path)
    set_up(case["input"]["setup"], place)
    before = outside(place)
    result = await obeyed(place, [(case["input"]["tool"], arguments_of(case, place))], mode)
    assert outside(place) == before
    if case["expect"] != "contained":  # of a hard link, nobody can tell that it is one
        assert "S3CRET" not in told(result).replace("No match for 'S3CRET'", "").replace(
            '"S3CRET"', ""
        )
        assert "canary" not in told(result)
    assert (place / ".git/config").read_text() == "[core]\n"
    assert not (place / "~").exists()
    assert result.outcome in (Outcome.APPROVAL_NEEDED, Outcome.COMPLETED)
