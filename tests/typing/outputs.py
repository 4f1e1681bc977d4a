"""What users of `output=` see of types: checked by pyright and mypy, never run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import assert_type

import msgspec
from pydantic import BaseModel
from typing_extensions import TypedDict

from treadle import Agent, RunResult, Runtime
from treadle.answer import AnswerType
from treadle.outputs import answer_type


@dataclass
class Answer:
    city: str


class Model(BaseModel):
    city: str


class Struct(msgspec.Struct):
    city: str


class Dict(TypedDict):
    city: str


class Season(Enum):
    WARM = "warm"


async def the_output_of_a_run_is_what_the_agent_was_asked_for(rt: Runtime) -> None:
    result = await rt.run(Agent(name="a", output=Answer), "hi")
    assert_type(result, RunResult[Answer])
    assert_type(result.unwrap(), Answer)
    assert_type((await rt.run(Agent(name="a", output=Model), "hi")).output, Model | None)
    assert_type((await rt.run(Agent(name="a", output=Struct), "hi")).output, Struct | None)
    assert_type((await rt.run(Agent(name="a", output=Dict), "hi")).output, Dict | None)
    assert_type((await rt.run(Agent(name="a", output=Season), "hi")).output, Season | None)
    assert_type((await rt.run(Agent(name="a", output=list[Answer]), "hi")).output, list[Answer] | None)
    assert_type((await rt.run(Agent(name="a", output=int), "hi")).output, int | None)


def a_type_of_answers_reads_its_type() -> None:
    assert_type(answer_type(Answer), AnswerType[Answer] | None)
    assert_type(answer_type(list[int]), AnswerType[list[int]] | None)
    assert_type(answer_type({"type": "object"}), AnswerType[object])
    answer_type(3)  # type: ignore[call-overload]
