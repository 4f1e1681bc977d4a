"""The `bash_kill` tool: ends a background job and all its processes. Entry point: `BashKill`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
from typing_extensions import override

from treadle.tools.builtin.base import Builtin
from treadle.tools.builtin.bash_output import JOB, JobArguments, told
from treadle.tools.builtin.jobs import Jobs
from treadle.tools.tool import Happened, ProbeAnswer, ToolContext, ToolFailed, Touched


class BashKill(Builtin[JobArguments]):
    name = "bash_kill"
    effect = "once"
    arguments = JobArguments
    example = '{"id": "job_1"}'
    parameters = JOB

    @override
    def touches(self, arguments: JobArguments, cwd: Path) -> Touched:
        return Touched(own=True)

    @override
    async def execute(self, ctx: ToolContext[Any], arguments: JobArguments) -> str:
        """End the job; cancellation does not interrupt this. Raises ToolFailed if the job does not
        exist.
        """
        job = ctx.keep(Jobs).get(arguments.id)
        ran = job.is_running
        with anyio.CancelScope(shield=True):
            await job.end()
        return f"{await told(ctx, job)}{'' if ran else f'{chr(10)}[it had ended before]'}"

    @override
    async def probe(self, ctx: ToolContext[Any], arguments: JobArguments) -> ProbeAnswer:
        """Report the job as ended if this process does not have it, because jobs end with their
        process.
        """
        try:
            ctx.keep(Jobs).get(arguments.id)
        except ToolFailed:
            return Happened(f"[{arguments.id} has ended, with the process that had started it]")
        return None
