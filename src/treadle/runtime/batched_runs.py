"""Many prompts at half price: their runs send their requests in batches of the provider.

Entry point: `BatchedRuns`, a base class of `Runtime`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import anyio
from typing_extensions import Unpack

from treadle.agents.agent import Agent, Deps
from treadle.errors import AgentError
from treadle.messages.message import Message, Prompt
from treadle.messages.result import Out, RunResult
from treadle.models.providers.batching.policy import BatchPolicy
from treadle.runtime.assembly import Assembly
from treadle.runtime.ensured_runs import EnsuredRuns
from treadle.runtime.options import check_agent
from treadle.runtime.prompt import prompt_of, run_id_of
from treadle.runtime.session import RunOptions, SessionOptions, check_options
from treadle.types import new_id

if TYPE_CHECKING:
    from treadle.models.providers.batching.request_batch import RequestBatch

_NUMBERED = "-999999"
"""Longest ending of a run's id, after the id of the batch."""


class BatchOptions(SessionOptions, total=False):
    """Options of `batch`; those of a run apply to each of its runs.

    Attributes:
        messages: Messages before each prompt, oldest first.
        batch_id: Id of the batch, by which another call continues it. The runs have the ids
            `BATCH-0`, `BATCH-1`, and so on.
        policy: How long requests gather, and how often the provider is asked for results.
        ordinary: True to send ordinary requests, at the full price, if the provider has no batch
            API, instead of raising AgentError(invalid).
    """

    messages: Sequence[Message]
    batch_id: str
    policy: BatchPolicy
    ordinary: bool


class BatchedRuns(EnsuredRuns):
    """Methods of a runtime that run many prompts."""

    _assembly: Assembly

    async def batch(
        self,
        agent: Agent[Deps, Out],
        prompts: Sequence[Prompt],
        *,
        deps: Deps = None,
        **options: Unpack[BatchOptions],
    ) -> list[RunResult[Out]]:
        """Run an agent for each prompt, and return the results in the same order. Requests to the
        model go out together over the provider's batch API, at half price; each turn can take up to
        24 hours.

        With the `batch_id=` of an earlier call, also in another process, continue its runs: their
        batches at the provider are not submitted again. Cancelling the awaiting task ends the runs
        and cancels their batches; closing the runtime leaves both. Raises AgentError for errors
        before the runs start, and `invalid` for a provider without a batch API.
        """
        check_options(options, BatchOptions)
        check_agent(agent)
        check_prompts(prompts)
        batch = self._begun(options)
        run_ids = [f"{batch.name}-{number}" for number in range(len(prompts))]
        given = {k: v for k, v in options.items() if k in RunOptions.__optional_keys__}
        results = dict[str, RunResult[Out]]()
        failures = list[AgentError]()

        async def run(run_id: str, prompt: Prompt) -> None:
            try:
                own = cast("RunOptions", {**given, "run_id": run_id})
                results[run_id] = await self.ensure(agent, prompt, deps=deps, **own)
            except AgentError as e:
                if not failures:
                    group.start_soon(self._stop, batch, run_ids)
                failures.append(e)
            finally:
                self._leave(batch, run_id)

        for run_id in run_ids:
            self._assembly.batches.expect(batch, run_id)
        try:
            async with anyio.create_task_group() as group:
                for run_id, prompt in zip(run_ids, prompts, strict=True):
                    group.start_soon(run, run_id, prompt)
        finally:
            for run_id in run_ids:
                self._leave(batch, run_id)
        if failures:
            raise failures[0]
        return [results[run_id] for run_id in run_ids]

    def _begun(self, options: BatchOptions) -> RequestBatch:
        batch_id, policy = options.get("batch_id"), options.get("policy", BatchPolicy())
        if batch_id is not None:
            run_id_of(batch_id and batch_id + _NUMBERED)
        if not isinstance(cast("object", policy), BatchPolicy):
            raise AgentError("invalid", "policy= is not a BatchPolicy: pass BatchPolicy(poll_s=…)")
        is_ordinary = options.get("ordinary", False)
        name = batch_id or new_id("batch")
        return self._assembly.batches.begin(name, policy, is_ordinary=is_ordinary)

    async def _stop(self, batch: RequestBatch, run_ids: Sequence[str]) -> None:
        """Stop the runs so that the next call continues them."""
        while any(run_id in self._assembly.batches.members for run_id in run_ids):
            for run_id in run_ids:
                self._runs.let_go(run_id)
            await batch.changed.wait()

    def _leave(self, batch: RequestBatch, run_id: str) -> None:
        self._assembly.batches.members.pop(run_id, None)
        batch.rest(run_id)


def check_prompts(prompts: object) -> None:
    """Raise AgentError(invalid) unless these are prompts, each of which could be run."""
    if not isinstance(prompts, list | tuple):
        raise AgentError(
            "invalid",
            f"batch() takes a list of prompts, not a {type(prompts).__name__}: for a single one, "
            "use run()",
        )
    for number, prompt in enumerate(cast("Sequence[Prompt]", prompts)):
        try:
            prompt_of(prompt)
        except AgentError as e:
            raise AgentError("invalid", f"prompt {number} of the batch: {e.message}") from e
