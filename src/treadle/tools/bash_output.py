"""The `bash_output` tool: what a background job has written since it was last asked, and whether it still runs. Entry: `BashOutput`."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from treadle.tooling import ToolContext
from treadle.tools.bash import exit_notes, notes_of
from treadle.tools.builtin import Arguments, Builtin, closed_object
from treadle.tools.jobs import Job, Jobs


class JobArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str


JOB = closed_object({"id": {"type": "string", "description": "As `bash` gave it: 'job_1'."}}, required=["id"])


class BashOutput(Builtin[JobArguments]):
    name = "bash_output"
    effect = "pure"
    arguments = JobArguments
    example = '{"id": "job_1"}'
    parameters = JOB

    @override
    async def execute(self, ctx: ToolContext[Any], arguments: JobArguments) -> str:
        """Raises ToolFailed where there is no such job."""
        return await told(ctx, ctx.keep(Jobs).get(arguments.id))


async def told(ctx: ToolContext[Any], job: Job) -> str:
    """How it stands, for the model; what was moved away is told to people too, once."""
    was_known = not job.left.quarantined
    output = await job.new_output()
    if was_known:
        for moved in job.left.quarantined:
            ctx.warn(f"{job.name}: {moved}")
    if job.is_running:
        return f"{output or '(no new output)'}\n[{job.name} is running]"
    how = "ran out of time and was killed" if job.timed_out else "has ended"
    notes = exit_notes(job.code or 0) or ["[exit code 0]"]
    return "\n".join([output or "(no new output)", f"[{job.name} {how}]", *notes, *notes_of(job.left)])
