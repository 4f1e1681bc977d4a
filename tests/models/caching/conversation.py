"""A long run with everything in it that may break a prefix: its tools, and what its model says, in
the words of any wire.

Entry: `Conversation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.doubles import PlainTool, breaks, gives
from tests.models.providers.loopback import Answer, Step, document
from tests.models.providers.speech import Said, Speech, call, reasoning, stream, text
from treadle import ToolContext, tool
from treadle.agents.agent import Agent
from treadle.messages.message import MediaPart, TextPart
from treadle.models.model import Model
from treadle.types import StopReason

TURNS = 50
WIDE = 30
"""Calls of one turn: more than the blocks at which Claude looks back."""
INSTRUCTIONS = "You look after a long list of parcels.\n" + "\n".join(
    f"Rule {i}: say what you do with parcel {i}, \u00fcber alles." for i in range(40)
)
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@tool
def search(
    query: str,
    limit: int = 10,
    tags: list[str] | None = None,
    weights: dict[str, float] | None = None,
) -> str:
    """Finds parcels.

    Args:
        query: Words that stand on it.
        limit: How many at most.
        tags: Only those with one of them.
        weights: How much each word counts.
    """
    return f"{query}: {limit} found"


class Conversation:
    """What is said in it, and with which tools. `steer` is called where a person speaks up."""

    def __init__(self, speech: Speech, steer: Callable[[str], None] = lambda text: None) -> None:
        self._speech, self._steer = speech, steer

    def agent(self, model: Model) -> Agent[Any]:
        return Agent(name="clerk", instructions=INSTRUCTIONS, model=model, tools=self.tools())

    def tools(self) -> list[Any]:
        picture = (
            TextPart(text="The label:"),
            MediaPart(media_type="image/png", data=PIXEL, name="label.png"),
        )
        return [
            search,
            PlainTool(name="look", does=self._look),
            PlainTool(name="listen", does=self._listen),
            gives("photograph", picture),
            gives("burn", needs_approval=True),
            breaks("drop", ValueError("it fell")),
        ]

    async def _look(self, ctx: ToolContext[Any], arguments: dict[str, int]) -> str:
        n = arguments["n"]
        return f"parcel {n} \u2713\n" * (1500 if n % 10 == 0 else 1)

    async def _listen(self, ctx: ToolContext[Any], arguments: dict[str, int]) -> str:
        self._steer(f"and mind parcel {arguments['n']}, please")
        return "somebody spoke"

    def answers(self, turns: int = TURNS, *, thinking: bool = True) -> list[Answer]:
        """One for each turn, and those that fail before they are given once more."""
        return [answer for n in range(1, turns) for answer in self._turn(n, thinking=thinking)] + [
            stream(self._speech, text("All done, ", "I think."))
        ]

    def _turn(self, n: int, *, thinking: bool) -> Sequence[Answer]:
        speech = self._speech
        thought = [reasoning(f"Parcel {n} ", "comes next.")] if thinking and n % 3 else []
        said = stream(speech, *thought, *self._said(n), end=StopReason.TOOL_USE)
        match n:
            case 17:
                return [document(speech.error(529, "busy"), status=529), said]
            case 18:
                return [
                    Answer(steps=(*speech.frames(*thought, *self._said(n), end=None), Step.CUT)),
                    said,
                ]
            case 22:
                return [stream(speech)]
            case 28:
                return [stream(speech, *thought, *self._said(n), end=StopReason.MAX_TOKENS)]
            case _:
                return [said]

    def _said(self, n: int) -> list[Said]:
        match n:
            case 4 | 40:
                return [
                    text(f"I shall listen at {n}."),
                    call("listen", f'{{"n": {n}}}', id=f"call_{n}"),
                ]
            case 8:
                return [call("burn", f'{{"n": {n}}}', id=f"call_{n}")]
            case 9:
                return [
                    call("drop", f'{{"n": {n}}}', id=f"call_{n}"),
                    call("vanish", f'{{"n": {n}}}', id=f"call_{n}b"),
                ]
            case 12 | 31:
                return [
                    call("look", f'{{"n": {n * 100 + k + 1}}}', id=f"call_{n}_{k}")
                    for k in range(WIDE)
                ]
            case 14:
                return [call("photograph", f'{{"n": {n}}}', id=f"call_{n}")]
            case 26 if self._speech.arguments_in_pieces:
                return [call("look", f'{{"n": {n}', id=f"call_{n}")]
            case _ if n % 7 == 0:
                return [
                    call("look", f'{{"n": {n * 100 + k}}}', id=f"call_{n}_{k}") for k in range(3)
                ]
            case _ if n % 4 == 0:
                return [
                    text(f"Now {n}. ", "Let me see."),
                    call("search", f'{{"query": "{n}"}}', id=f"call_{n}"),
                ]
            case _:
                return [call("look", f'{{"n": {n}}}', id=f"call_{n}")]
