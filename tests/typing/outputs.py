"""What users of `output=` see of types: checked by pyright and mypy, never run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, assert_type

import msgspec
from pydantic import BaseModel
from typing_extensions import TypedDict, Unpack

from treadle import Agent, RunOptions, RunResult, Runtime
from treadle import open as open_sync
from treadle.tools.structured_output import answer_type
from treadle.tools.structured_output.contract import AnswerType


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
    assert_type(
        (await rt.run(Agent(name="a", output=list[Answer]), "hi")).output, list[Answer] | None
    )
    assert_type((await rt.run(Agent(name="a", output=int), "hi")).output, int | None)


async def the_output_of_a_stream_has_its_type_while_it_grows(rt: Runtime) -> None:
    async with rt.stream(Agent(name="a", output=list[Answer]), "hi") as run:
        async for answers in run.output_stream():
            assert_type(answers, list[Answer])
        assert_type(run.output_so_far, list[Answer] | None)
    async with rt.stream(Agent(name="a"), "hi") as text:
        assert_type(text.output_so_far, str | None)
    with open_sync() as sync, sync.stream(Agent(name="a", output=Answer | None), "hi") as stream:
        for answer in stream.output_stream():
            assert_type(answer, Answer | None)


async def unions_literals_and_schemas_are_types_of_answers_too(rt: Runtime) -> None:
    assert_type(
        (await rt.run(Agent(name="a", output=Answer | Struct), "hi")).unwrap(), Answer | Struct
    )
    assert_type((await rt.run(Agent(name="a", output=Answer | None), "hi")).unwrap(), Answer | None)
    assert_type(
        (await rt.run(Agent(name="a", output=Literal["warm", "cold"]), "hi")).unwrap(),
        Literal["warm", "cold"],
    )
    assert_type((await rt.run(Agent(name="a", output={"type": "object"}), "hi")).unwrap(), Any)
    assert_type((await rt.run(Agent(name="a", output=None), "hi")).unwrap(), str)


async def a_run_that_goes_on_without_its_agent_may_give_anything(rt: Runtime) -> None:
    agent = Agent(name="a", output=Answer)
    assert_type(await rt.resume("run_1"), RunResult[Any])
    assert_type(await rt.resume("run_1", agent), RunResult[Answer])
    assert_type(await rt.fork("run_1", turn=1), RunResult[Any])
    assert_type(await rt.fork("run_1", turn=1, agent=agent), RunResult[Answer])
    async with (
        rt.resume_stream("run_1") as unknown,
        rt.fork_stream("run_1", turn=1, agent=agent) as known,
    ):
        assert_type(unknown.result, RunResult[Any])
        assert_type(known.result, RunResult[Answer])


async def a_wrapper_of_ones_own_takes_what_a_run_takes(
    rt: Runtime, **options: Unpack[RunOptions]
) -> RunResult[Answer]:
    return await rt.run(Agent(name="a", output=Answer), "hi", **options)


def a_type_of_answers_reads_its_type() -> None:
    assert_type(answer_type(Answer), AnswerType[Answer] | None)
    assert_type(answer_type(list[int]), AnswerType[list[int]] | None)
    assert_type(answer_type({"type": "object"}), AnswerType[object])
    answer_type(3)  # type: ignore[call-overload]
