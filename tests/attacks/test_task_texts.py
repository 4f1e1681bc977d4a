"""Messages to the task assistant that are nearly right: cut anywhere, repeated up to the limit, with
digits of other scripts and numbers without end (C11).
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from datetime import date
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.attacks import SEEDS, chance
from tests.attacks.names import hostile
from treadle.apps.assistant.language import understood
from treadle.apps.assistant.language.acting import TooManyTasks, calls_of
from treadle.apps.assistant.language.conversation import Dialogue, Speech

TODAY: Final = date(2026, 11, 20)
CHARS_MOST: Final = 10_000
DEV: Final = Path(__file__).parents[1] / "apps/assistant/utterances/dev.jsonl"
SAYS: Final = [
    said
    for line in DEV.read_text(encoding="utf-8").splitlines()
    for said in json.loads(line)["says"]
]
DIGITS: Final = (
    *("\u0663", "\u00b2", "\u2460", "\uff13", "\u0be9", "\u216b", "\u4e09", "\u00bd"),
    *("9" * 40, "0", "00", "-1", "1e9", "31/31", "2026-02-30", "29/2", "25:61"),
)
"""What Python takes for digits, decimals or numbers, each in part, and numbers of no day."""


def nearly(random: Random) -> str:
    """A message of the corpus with up to four changes."""
    text = random.choice(SAYS)
    for _ in range(random.randint(1, 4)):
        words = text.split(" ")
        place = random.randrange(len(words))
        match random.randint(0, 8):
            case 0:
                text = text[: random.randint(1, len(text))]
            case 1:
                text = text[random.randint(0, len(text) - 1) :]
            case 2:
                text = re.sub(r"\d+", lambda _: random.choice(DIGITS), text)
            case 3:
                words[place] = random.choice(DIGITS)
                text = " ".join(words)
            case 4:
                text = " ".join([*words[:place], hostile(random, lines=True), *words[place:]])
            case 5:
                text = f"{text}{random.choice([' ', ', ', ' and ', chr(10)])}{random.choice(SAYS)}"
            case 6:
                random.shuffle(words)
                text = " ".join(words)
            case 7:
                text = text.swapcase().replace(" ", random.choice(["\u2003", "\t", "  ", "\u200b"]))
            case _:
                times = random.choice([2, 3, 40])
                text = (text + random.choice([" ", ""])) * times
        text = text or "x"
    if random.random() < 0.1:
        text = (text + " ") * (CHARS_MOST // len(text) + 1)
    return text[:CHARS_MOST]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_message_is_too_odd_to_be_answered(seed: int) -> None:
    random = chance(seed, "texts")
    said: list[Speech] = []
    for _ in range(60):
        text = nearly(random)
        history = tuple(said[-random.choice([0, 2, 4]) :]) if said else ()
        wishes = understood(text, TODAY, said=history)
        assert 1 <= len(wishes) <= 10
        with suppress(TooManyTasks, KeyError):  # without the tasks that it would look up
            calls_of(wishes, {})
        assert isinstance(Dialogue.of(history), Dialogue)
        said += [("user", text), ("assistant", nearly(random))]
