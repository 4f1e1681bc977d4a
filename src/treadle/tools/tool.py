"""The contract of a tool: a name, a description, a JSON Schema and an async `execute`.

Functions become tools in tools/function; loop/toolbox.py runs calls. Entry points: `Tool`,
`ToolContext`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, runtime_checkable

import msgspec
from typing_extensions import TypeForm, TypeVar

from treadle._internal.redaction import Masking
from treadle.errors import AgentError
from treadle.messages.message import JsonText, MediaPart, Prompt, TextPart, ToolResult
from treadle.messages.result import RunResult
from treadle.models.model import ToolDefinition
from treadle.tools.confinement import Confinement
from treadle.tools.failures import DidNotHappen as DidNotHappen
from treadle.tools.failures import Happened as Happened
from treadle.tools.failures import InvalidArguments as InvalidArguments
from treadle.tools.failures import Late
from treadle.tools.failures import ToolDeferred as ToolDeferred
from treadle.tools.failures import ToolDone as ToolDone
from treadle.tools.failures import ToolFailed as ToolFailed
from treadle.types import Effect, Limits

if TYPE_CHECKING:
    from treadle.tools.file_history import Before  # imports logging and shutil

DepsOut = TypeVar("DepsOut", covariant=True, default=object)
DepsIn = TypeVar("DepsIn", contravariant=True, default=object)
OutOf = TypeVar("OutOf", covariant=True, default=str)
ChildDeps = TypeVar("ChildDeps")
ChildOut = TypeVar("ChildOut")
KeptT = TypeVar("KeptT")

MAX_OUTPUT_CHARS = 30_000
MAX_OUTPUT_LINES = 2_000
MAX_LINE_CHARS = 2_000


ToolContent: TypeAlias = "str | Sequence[TextPart | MediaPart]"
ToolOutput: TypeAlias = "ToolContent | ToolDone"
"""Result of an execution: text, or text and media. tools/function converts all other values to JSON
text.
"""


class Touched(msgspec.Struct, frozen=True, kw_only=True):
    """All resources that one call touches, as its tool declares them. Paths are as in the call:
    absolute, or relative to the working directory.
    """

    reads: tuple[str, ...] = ()
    """Files and directories whose contents reach the model."""
    lists: tuple[str, ...] = ()
    """Directories whose file names reach the model, or searches that omit likely secrets."""
    writes: tuple[str, ...] = ()
    command: str | None = None
    """A command line that a shell runs."""
    hosts: tuple[str, ...] = ()
    own: bool = False
    """True if the call touches only resources that this run created, such as its background
    jobs.
    """

    @property
    def is_nothing(self) -> bool:
        return (
            not (self.reads or self.lists or self.writes or self.hosts or self.own)
            and self.command is None
        )


NOTHING_TOUCHED = Touched()

ProbeAnswer: TypeAlias = "Happened | DidNotHappen | None"
Probe: TypeAlias = Callable[..., Awaitable[ProbeAnswer]]


class ToolContext(msgspec.Struct, Generic[DepsOut], frozen=True, kw_only=True):
    """Context of one call, with data about its run. Valid only during the call.

    Attributes:
        deps: The application's own dependencies, as passed to the run.
        run_id: Id of the run.
        session_id: Session of the run, or None.
        call_id: Id of the call.
        user_id: User on whose behalf the run acts, or None.
        cwd: Working directory, absolute. Relative paths of tools start here.
        deadline: Time at which this call will be cancelled, on the event loop's clock in seconds.
            None: no limit.
        attempt: Number of this attempt, from 1. It increases when a resumed run repeats the call.
        idempotency_key: Key for requests to other services: the same for every attempt of this
            call, different for every other call.
        spill: Writes text that is too long for the model to a file that the model can read, and
            returns the path.
        seen_files: Hashes of the files as the model last saw them, by path, for the whole session.
            Tools refuse to change a file that the model has not read.
        places: Resolved targets of the paths in the call, as the policy checked them. Tools open
            these, without following further links.
        withheld: Returns True for a file (absolute, without links) that a rule of the user makes
            unreadable, so that directory searches omit it. None: no such rule.
        is_secret: Returns True for an absolute path that probably contains a credential: directory
            searches name such files without showing their contents.
        before_change: Stores the content of a file before it is changed, for `treadle runs undo`.
            None: not stored. Blocks.
        environment: Environment for child processes, without the provider's keys.
        sandbox: Confinement of this call's commands. None: not confined, because no sandbox works,
            it is disabled, or this call was approved.
        documents: True if the run's model accepts PDF documents, so that a tool can return pages.
        kept: Objects that `keep` created, for the whole session.
        masking: Creates a filter that redacts known secrets in streamed text. None: no secrets are
            known. Results of tools are redacted in any case.
        report: Called by `progress`.
        tell: Called by `warn`.
        on_exit: Called by `exited` with the exit code.
        is_cancelled: Called by `cancelled`.
        late: Receives, once, the output of a call that was reported as `unknown`. Callable from any
            thread; never blocks.
        run_child: Called by `spawn` with the same arguments.
        verify: Raises AgentError if another process now drives the run. A `once` call that had to
            wait before its start awaits this first. None: the call may be repeated.
    """

    deps: DepsOut
    run_id: str
    session_id: str | None
    call_id: str
    user_id: str | None
    cwd: Path
    deadline: float | None
    attempt: int
    idempotency_key: str
    spill: Callable[[str], Path]
    seen_files: dict[str, str] = {}
    places: Mapping[str, str] = {}
    withheld: Callable[[str], bool] | None = None
    is_secret: Callable[[str], bool] = lambda _path: False
    before_change: Callable[[Before], None] | None = None
    environment: Mapping[str, str] = {}
    sandbox: Confinement | None = None
    documents: bool = False
    kept: dict[Callable[[], Any], Any] = {}
    masking: Callable[[], Masking] | None = None
    report: Callable[[str, float | None, float | None], None] | None = None
    tell: Callable[[str], None] | None = None
    on_exit: Callable[[int], None] | None = None
    is_cancelled: Callable[[], bool] | None = None
    late: Late | None = None
    run_child: Callable[..., Awaitable[Any]] | None = None
    verify: Callable[[], Awaitable[None]] | None = None

    @property
    def cancelled(self) -> bool:
        """True once the run is being stopped. A sync tool should poll it, because its thread cannot
        be interrupted.
        """
        return self.is_cancelled() if self.is_cancelled is not None else False

    def progress(self, text: str, done: float | None = None, total: float | None = None) -> None:
        """Publish a progress event (`tool_progress`). Callable from any thread; never blocks."""
        if self.report is not None:
            self.report(text, done, total)

    def warn(self, text: str) -> None:
        """Show the user a `warning` in addition to the result.

        Callable from any thread; never blocks.
        """
        if self.tell is not None:
            self.tell(text)

    def exited(self, code: int) -> None:
        """Record the exit code of the command that this call ran, which is shown with its result:
        -N for a process ended by signal N.
        """
        if self.on_exit is not None:
            self.on_exit(code if code >= 0 else 128 - code)

    def keep(self, kind: Callable[[], KeptT]) -> KeptT:
        """Return the object of `kind` of this session (or run, without one), creating it if needed.

        Its `aclose`, if any, is awaited when the run without a session ends or the runtime closes.
        Its `news`, if any, is called before each request and returns texts that the model reads,
        each once.
        """
        if kind not in self.kept:
            self.kept[kind] = kind()
        return self.kept[kind]

    async def spawn(
        self,
        agent: SpawnedAgent[ChildDeps, ChildOut],
        text: Prompt,
        *,
        deps: ChildDeps = None,
        inputs: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
    ) -> RunResult[ChildOut]:
        """Run another agent to its end and return its result.

        The child has its own history and limits, and the mode, cwd and user of this run. Its usage
        counts against the limits of this run and of all its ancestors. If this call is repeated
        after a crash, the child that it had started continues. Raises AgentError for errors before
        the start, AgentError(invalid) if no runtime runs this tool; every later outcome is
        returned. Cancellation: cancelling this call cancels the child.
        """
        if self.run_child is None:
            raise AgentError(
                "invalid",
                f"call {self.call_id!r} cannot spawn an agent: this tool is not run by a runtime",
            )
        return await self.run_child(agent, text, deps=deps, inputs=inputs, limits=limits)


@runtime_checkable
class Tool(Protocol[DepsIn]):
    """Interface of a tool, as the loop uses it."""

    @property
    def definition(self) -> ToolDefinition:
        """Name, description and JSON Schema; the same object every time."""
        ...

    @property
    def name(self) -> str:
        """Name by which the model calls it."""
        ...

    @property
    def effect(self) -> Effect:
        """Effect of a call: `pure`, `idempotent` or `once`."""
        ...

    @property
    def parallel(self) -> bool:
        """False if the call must run alone: after the parallel calls before it in the turn, and
        before those after it.
        """
        ...

    @property
    def timeout_s(self) -> float | None:
        """Timeout of a call in seconds, or None."""
        ...

    @property
    def needs_approval(self) -> bool:
        """True if a person must approve each call."""
        ...

    @property
    def max_output(self) -> int:
        """Maximum number of characters of the result that the model sees; the rest is written to a
        file.
        """
        ...

    def parse(self, arguments_json: JsonText) -> Any:
        """Parse and validate arguments into the tool's own form.

        Raises InvalidArguments with the error and the expected value.
        """
        ...

    def touches(self, arguments: Any, cwd: Path) -> Touched | None:
        """Return everything that the call touches, for the policy; None if that is unknown. A pure
        tool that returns None is allowed.
        """
        ...

    async def execute(self, ctx: ToolContext[DepsIn], arguments: Any) -> ToolOutput:
        """Execute the call with the arguments from `parse`. Raises ToolFailed for an error that the
        model should read; the model also reads any other exception.

        After any other exception, the outcome of a `once` call is unknown.

        Cancellation: stop the work, leave nothing running, and re-raise.
        """
        ...

    async def probe(self, ctx: ToolContext[DepsIn], arguments: Any) -> ProbeAnswer:
        """Return whether a `once` call with these arguments happened; None if that cannot be
        determined. Must not change anything.

        Called if the call had started and its result was lost because the process died. Exceptions
        count as None.
        """
        ...


class SpawnedAgent(Protocol[DepsIn, OutOf]):
    """Members of `Agent` that `spawn` uses. The class itself is in a higher layer."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def own_tools(self) -> Sequence[Tool[DepsIn]]: ...

    @property
    def output(self) -> TypeForm[OutOf] | Mapping[str, object] | None: ...


class ToolProvider(Protocol):
    """Source of additional tools for runs, such as an MCP server (tools/mcp)."""

    @property
    def name(self) -> str: ...
    @property
    def secrets(self) -> frozenset[str]:
        """Values that must not be displayed."""
        ...

    @property
    def deferred(self) -> bool:
        """True if the model sees only the tools that it has found with a search."""
        ...


class LateTools(Protocol):
    """Tools that may arrive while a run is in progress."""

    def take(self) -> tuple[Sequence[Tool[Any]], Sequence[str]]:
        """Return the tools that have arrived since the last call, and messages for the user."""
        ...


def failure(call_id: str, name: str, text: str, *, unknown: bool = False) -> ToolResult:
    return ToolResult(call_id=call_id, name=name, content=text, is_error=True, unknown=unknown)
