"""The `bash_output` tool: new output and status of a background job. Entry point: `BashOutput`."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import override

from treadle.tools.builtin.base import Arguments, Builtin, closed_object
from treadle.tools.builtin.bash import exit_notes, notes_of, warn_of
from treadle.tools.builtin.jobs import BackgroundJob, Jobs
from treadle.tools.confinement import CommandNotes
from treadle.tools.tool import ToolContext


class JobArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str


class OutputArguments(JobArguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    wait_s: float = 0.0
    until: Literal["output", "end"] = "output"


_ID = {"type": "string", "description": "Id that `bash` returned, such as 'job_1'."}
JOB = closed_object({"id": _ID}, required=["id"])
MAX_WAIT_S = 600.0


class BashOutput(Builtin[OutputArguments]):
    name = "bash_output"
    effect = "pure"
    polls = True
    arguments = OutputArguments
    example = '{"id": "job_1", "wait_s": 60, "until": "end"}'
    parameters = closed_object(
        {
            "id": _ID,
            "wait_s": {
                "type": "number",
                "description": f"Maximum seconds to wait, at most {MAX_WAIT_S:.0f}. Default 0.",
            },
            "until": {
                "type": "string",
                "enum": ["output", "end"],
                "description": (
                    "What ends the wait: new output or the end of the job, or only its end. "
                    "Default 'output'."
                ),
            },
        },
        required=["id"],
    )

    @override
    async def execute(self, ctx: ToolContext[Any], arguments: OutputArguments) -> str:
        """Return the new output. Raises ToolFailed if the job does not exist. Cancellation: the job
        continues.
        """
        job = ctx.keep(Jobs).get(arguments.id)
        if arguments.wait_s > 0:
            await job.wait(min(arguments.wait_s, MAX_WAIT_S), to_the_end=arguments.until == "end")
        said = await told(ctx, job)
        if job.code is not None:
            ctx.exited(job.code)
        return said


async def told(ctx: ToolContext[Any], job: BackgroundJob) -> str:
    """Report the job's status to the model, and warn the user once about files that the sandbox
    removed.
    """
    was_running = job.left == CommandNotes()
    output = await job.new_output()
    if was_running:
        warn_of(ctx, job.name, job.left)
    if job.is_running:
        return f"{output or '(no new output)'}\n[{job.name} is running]"
    how = "ran out of time and was killed" if job.timed_out else "has ended"
    notes = exit_notes(job.code or 0) or ["[exit code 0]"]
    return "\n".join(
        [output or "(no new output)", f"[{job.name} {how}]", *notes, *notes_of(job.left)]
    )
