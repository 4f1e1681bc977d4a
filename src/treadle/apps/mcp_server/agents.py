"""An agent as a tool of an MCP server: each call is a run, in the runtime's journal.

Entry point: `ServedAgent`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

import anyio
from mcp.types import CallToolRequestParams, CallToolResult, Tool

from treadle.agents.agent import Agent
from treadle.agents.templates import Input
from treadle.apps.mcp_server.answers import answer_of, waiting
from treadle.apps.mcp_server.progress import reporting
from treadle.apps.mcp_server.questions import (
    ClientQuestion,
    Verdicts,
    Way,
    answers_in,
    ask_now,
    asked_again,
    questions_of,
    way_of,
)
from treadle.apps.mcp_server.server import Context, Reply, refused
from treadle.errors import AgentError
from treadle.messages.events import Event
from treadle.messages.result import RunResult
from treadle.runtime.runtime import Runtime
from treadle.runtime.session import SessionOptions
from treadle.tools.structured_output import answer_type
from treadle.tools.structured_output.contract import AnswerType
from treadle.tools.structured_output.roots import RESULT

_OF_A_WRAPPER: Final = frozenset(
    {"type", "properties", "required", "additionalProperties", "$defs", "definitions", "$schema"}
)


def structured(answer: AnswerType[Any], value: object) -> dict[str, object]:
    """Return the value as JSON data, wrapped in `result` if the schema is not an object."""
    plain = cast("object", json.loads(answer.encoded(value)))
    if _is_wrapper(answer.schema) and not (
        isinstance(plain, dict) and cast("dict[str, object]", plain).keys() == {RESULT}
    ):
        return {RESULT: plain}
    return cast("dict[str, object]", plain) if isinstance(plain, dict) else {RESULT: plain}


def _is_wrapper(schema: Mapping[str, object]) -> bool:
    properties = schema.get("properties")
    return (
        isinstance(properties, dict)
        and list(cast("dict[str, object]", properties)) == [RESULT]
        and schema.keys() <= _OF_A_WRAPPER
    )


PROMPT: Final = "prompt"
CLOSE_GRACE_S: Final = 5.0
MAX_NAME_CHARS: Final = 100
Hear: TypeAlias = Callable[[Event], None]


class ServedAgent:
    """Agent as a tool. Its arguments are `prompt` and the agent's declared inputs.

    A call that needs approval asks the person at the client if the client supports elicitation;
    otherwise `on_ask` of the options applies. Cancelling the request cancels the run, and its
    history is closed.
    """

    def __init__(self, agent: Agent[Any, Any], runtime: Runtime, options: SessionOptions) -> None:
        """Create a served agent. `options` apply to every run.

        Raises AgentError(invalid) for an agent with an input named like the prompt.
        """
        if PROMPT in agent.inputs:
            raise AgentError(
                "invalid",
                (
                    f"agent {agent.name!r} has an input {PROMPT!r}, which is what a tool's own "
                    "argument is called: rename the input"
                ),
            )
        self._agent, self._runtime, self._options = agent, runtime, options
        self._answer: AnswerType[Any] | None = answer_type(agent.output)
        self.definition: Final = _definition(agent, self._answer)

    async def call(self, context: Context, params: CallToolRequestParams) -> Reply:
        reply: Reply
        async with reporting(context, self._clean) as hear:
            way = way_of(context)
            try:
                prompt, inputs = self._split(params.arguments or {})
                if params.request_state is None:
                    result = await self._run(prompt, inputs, way, hear)
                else:
                    result = await self._go_on(
                        params.request_state, params.input_responses, way, hear
                    )
                reply = await self._reply(context, result, way, hear)
            except AgentError as e:
                reply = refused(self._clean(e.message))
        return reply

    def _clean(self, text: str) -> str:
        """Remove secrets, and lone surrogates, which cannot be encoded."""
        return (
            self._runtime.redact(text)
            .encode("utf-16-le", "surrogatepass")
            .decode("utf-16-le", "replace")
        )

    def _split(self, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the prompt and the inputs. Raises AgentError(invalid)."""
        takes = [PROMPT, *self._agent.inputs]
        if strange := sorted(set(arguments) - set(takes)):
            raise AgentError(
                "invalid",
                (
                    f"{self._agent.name} takes no argument {strange[0][:MAX_NAME_CHARS]!r}; it "
                    f"takes: {', '.join(takes)}"
                ),
            )
        prompt = arguments.get(PROMPT)
        if not isinstance(prompt, str) or not prompt.strip():
            raise AgentError(
                "invalid",
                f"{self._agent.name} needs the argument {PROMPT!r}: describe the task in words",
            )
        return prompt, {name: value for name, value in arguments.items() if name != PROMPT}

    async def _run(
        self, prompt: str, inputs: dict[str, Any], way: Way | None, hear: Hear
    ) -> RunResult[Any]:
        options = self._heard({**self._options, "inputs": inputs}, way, hear)
        return await self._runtime.run(self._agent, prompt, **cast("SessionOptions", options))

    async def _go_on(
        self, run_id: str, responses: Mapping[str, object] | None, way: Way | None, hear: Hear
    ) -> RunResult[Any]:
        """Resume a run with the client's answers to its questions. A finished run returns its
        result again.
        """
        said = answers_in(responses, await self._questions(run_id))
        if not said:
            return await self._runtime.replay(run_id)
        return await self._resume(run_id, said, way, hear)

    async def _resume(
        self, run_id: str, said: Verdicts, way: Way | None, hear: Hear
    ) -> RunResult[Any]:
        options = self._heard({}, way, hear)
        return await self._runtime.resume(
            run_id, self._agent, approve=said.approve, deny=said.deny, **cast("Any", options)
        )

    @staticmethod
    def _heard(options: Mapping[str, object], way: Way | None, hear: Hear) -> dict[str, object]:
        return {**options, **({} if way is None else {"on_ask": "wait"}), "on_event": hear}

    async def _reply(
        self, context: Context, result: RunResult[Any], way: Way | None, hear: Hear
    ) -> Reply:
        while questions := await self._questions(result.run_id):
            if way is None:
                return waiting(self._agent.name, result)
            if way == "again":
                return asked_again(questions, result.run_id)
            result = await self._resume(
                result.run_id, await self._asked(context, result.run_id, questions), way, hear
            )
        if await self._waits(result.run_id):  # calls that are too long to show keep waiting
            return waiting(self._agent.name, result)
        return self._ended(result)

    async def _waits(self, run_id: str) -> bool:
        state = await self._runtime.journal.load(run_id)
        return state.finished is None and bool(state.approvals.asked)

    async def _questions(self, run_id: str) -> list[ClientQuestion]:
        return questions_of(await self._runtime.journal.load(run_id), self._clean)

    async def _asked(
        self, context: Context, run_id: str, questions: list[ClientQuestion]
    ) -> Verdicts:
        """Ask now. If the request is cancelled, end the run, which no process is driving at that
        time.
        """
        try:
            return await ask_now(context, questions)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(CLOSE_GRACE_S, shield=True):
                await self._runtime.kill(run_id)
            raise

    def _ended(self, result: RunResult[Any]) -> CallToolResult:
        data = (
            structured(self._answer, result.output)
            if self._answer is not None and result.success and result.validated
            else None
        )
        return answer_of(self._agent.name, result, data, self._clean)


def _definition(agent: Agent[Any, Any], answer: AnswerType[Any] | None) -> Tool:
    prompt = {
        "type": "string",
        "description": f"What the agent {agent.name} should do, with all the information that it "
        "needs.",
    }
    schema = {
        "type": "object",
        "properties": {
            PROMPT: prompt,
            **{name: _schema_of(declared) for name, declared in agent.inputs.items()},
        },
        "required": [
            PROMPT,
            *(
                name
                for name, declared in agent.inputs.items()
                if declared.required and declared.default is None
            ),
        ],
        "additionalProperties": False,
    }
    description = agent.description or f"Runs the agent {agent.name}."
    return Tool(
        name=agent.name,
        description=description,
        input_schema=schema,
        output_schema=None if answer is None else answer.schema,
    )


def _schema_of(declared: Input) -> dict[str, Any]:
    said = {"description": declared.description, "default": declared.default}
    return {
        "type": declared.type,
        **{name: value for name, value in said.items() if value not in ("", None)},
    }
