"""Treadle as a peer of the harness in shared/bench, and the loop alone without a wire: one process,
one measurement, JSON on the last line.

shared/bench/runners/common.py is the harness, which defines the measurements and their checks.
Entry point, for run.py: `treadle_runner.py
treadle|treadle-disk|treadle-openai|treadle-chat|treadle-gemini|treadle-loop METRIC [the harness's
options]`.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import gc
import importlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from typing_extensions import override

from treadle import Agent, Limits, Outcome, Runtime, Session, Settings, tool
from treadle.config import load
from treadle.messages.events import TextDelta
from treadle.models.providers import gemini, openai_chat, openai_responses
from treadle.models.providers.scripted import ScriptedModel

HARNESS = Path(__file__).resolve().parent.parent.parent / "shared" / "bench" / "runners"
PROMPT = "Please look up all the keys and then tell me whether the results are consistent."
SYSTEM = "You are a careful assistant. Use the lookup tool."
ANSWER = "All done."


class Treadle:
    """The runtime with its defaults: journal and sessions in memory, our own connection."""

    name = "treadle"
    stateful = False
    session_note = (
        "shared runtime; a Session, whose messages and journal the runtime keeps in memory"
    )
    model_prefix = "claude-sonnet-4-5-"
    model_suffix = ""
    has_stream = True

    def __init__(self, base_url: str) -> None:
        config = load(
            {"ANTHROPIC_API_KEY": "sk-mock-key-of-the-benchmark", "ANTHROPIC_BASE_URL": base_url},
            files=False,
        )
        self._runtime = Runtime.open(self._journal(), config=config)
        self._tool = tool(effect="pure")(importlib.import_module("common").lookup)

    def _journal(self) -> str:
        return "memory:"

    def build(self, model: str, max_turns: int = 60) -> Agent:
        settings, limits = Settings(max_tokens=1024), Limits(turns=max_turns)
        return Agent(
            name="bench",
            instructions=SYSTEM,
            model=f"anthropic:{model}",
            tools=[self._tool],
            settings=settings,
            limits=limits,
        )

    async def run(self, agent: Agent, max_turns: int = 60) -> str:
        return (await self._runtime.run(agent, PROMPT)).unwrap()

    async def stream(self, agent: Agent) -> int:
        """The number of text deltas; fewer than were sent where the reader fell behind and
        neighbours were joined.
        """
        seen = 0
        async with self._runtime.stream(agent, PROMPT) as run:
            async for event in run:
                if type(event) is TextDelta:
                    seen += 1
        assert run.result.outcome is Outcome.COMPLETED, run.result.error
        return seen

    async def session(self, model: str, shared: Agent) -> Session:
        session = self._runtime.session(agent=shared)
        result = await session.send(PROMPT)
        assert len(result.messages) == 20, len(result.messages)
        return session

    async def close(self) -> None:
        await self._runtime.aclose()


class TreadleOnDisk(Treadle):
    """The same with its journal in a SQLite file, like the command line."""

    name = "treadle-disk"

    @override
    def _journal(self) -> str:
        self._directory = tempfile.TemporaryDirectory(prefix="treadle-bench-")
        return f"sqlite:///{self._directory.name}/journal.db"

    @override
    async def close(self) -> None:
        await super().close()
        self._directory.cleanup()


class TreadleOverOpenAI(Treadle):
    """The same over OpenAI's Responses API, which the mock supports too."""

    name = "treadle-openai"

    def __init__(self, base_url: str) -> None:
        super().__init__(base_url)
        self._connection = openai_responses.connect(
            api_key="sk-mock-key-of-the-benchmark", base_url=f"{base_url}/v1"
        )

    @override
    def build(self, model: str, max_turns: int = 60) -> Agent:
        return dataclasses.replace(
            super().build(model, max_turns),
            model=openai_responses.OpenAIResponsesModel(model, connection=self._connection),
        )

    @override
    async def close(self) -> None:
        await super().close()
        await self._connection.aclose()


class TreadleOverChat(Treadle):
    """The same over Chat Completions, which the mock supports too."""

    name = "treadle-chat"

    def __init__(self, base_url: str) -> None:
        super().__init__(base_url)
        self._connection = openai_chat.connect(base_url=f"{base_url}/v1")

    @override
    def build(self, model: str, max_turns: int = 60) -> Agent:
        return dataclasses.replace(
            super().build(model, max_turns),
            model=openai_chat.ChatModel(model, connection=self._connection),
        )

    @override
    async def close(self) -> None:
        await super().close()
        await self._connection.aclose()


class TreadleOverGemini(Treadle):
    """The same over Google's API, which mock.py adds to the mock."""

    name = "treadle-gemini"

    def __init__(self, base_url: str) -> None:
        super().__init__(base_url)
        self._connection = gemini.connect(api_key="mock-key-of-the-benchmark", base_url=base_url)

    @override
    def build(self, model: str, max_turns: int = 60) -> Agent:
        return dataclasses.replace(
            super().build(model, max_turns),
            model=gemini.GeminiModel(model, connection=self._connection),
        )

    @override
    async def close(self) -> None:
        await super().close()
        await self._connection.aclose()


# ---------------------------------------------------------------- the loop alone


@tool
async def lookup(key: str) -> str:
    """Look up the value of a key.

    Args:
        key: The key to look up.
    """
    return "value-42"


async def loop_reps(turns: int, reps: int) -> list[dict[str, float]]:
    """Run against a script: a whole turn without request, connection and decoding."""
    measured: list[dict[str, float]] = []
    async with Runtime.open() as runtime:
        for i in range(reps + 1):
            agent = Agent(
                name="bench",
                instructions=SYSTEM,
                model=_script(turns),
                tools=[lookup],
                limits=Limits(turns=turns + 10),
            )
            gc.collect()
            cpu, wall = time.process_time(), time.perf_counter()
            result = await runtime.run(agent, PROMPT)
            spent = {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall}
            assert result.unwrap() == ANSWER
            assert result.metrics.tool_calls == turns
            if i:
                measured.append(spent)
    return measured


def _script(turns: int) -> ScriptedModel:
    """Return the mock's answers, so that the loop does the same work."""
    usage = {"input_tokens": 512, "output_tokens": 64}
    calls = [
        {
            "text": "Let me look that up for you.",
            "tool_calls": [{"name": "lookup", "arguments": {"key": f"k{i}"}}],
            "usage": usage,
        }
        for i in range(turns)
    ]
    return ScriptedModel([*calls, {"text": ANSWER, "usage": usage}])


PEERS = {
    "treadle": Treadle,
    "treadle-disk": TreadleOnDisk,
    "treadle-openai": TreadleOverOpenAI,
    "treadle-chat": TreadleOverChat,
    "treadle-gemini": TreadleOverGemini,
}


def main() -> None:
    peer = sys.argv.pop(1)
    sys.path.insert(0, str(HARNESS))
    if peer in PEERS:
        harness: Any = importlib.import_module("common")
        harness.main(PEERS[peer])
        return
    options = argparse.ArgumentParser()
    options.add_argument("metric", choices=["turns"])
    options.add_argument("--n", type=int, default=50)
    options.add_argument("--reps", type=int, default=5)
    given, _ = options.parse_known_args()
    print(json.dumps({"reps": asyncio.run(loop_reps(given.n, given.reps))}))


if __name__ == "__main__":
    main()
