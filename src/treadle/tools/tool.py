"""What a tool is: a name, a description, a JSON Schema and an async execute, and what it may tell
its caller.

Making one from a function is tools/function; running one inside a turn is toolbox.py. Entry:
`Tool`, `ToolContext`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeAlias, runtime_checkable

import msgspec
from typing_extensions import TypeForm, TypeVar

from treadle._internal.redaction import Masking
from treadle.errors import AgentError
from treadle.messages.message import JsonText, MediaPart, Part, TextPart, ToolResult
from treadle.messages.result import RunResult
from treadle.models.model import ToolDefinition
from treadle.tools.confinement import Confinement
from treadle.tools.failures import InvalidArguments as InvalidArguments
from treadle.tools.failures import ToolDeferred as ToolDeferred
from treadle.tools.failures import ToolFailed as ToolFailed
from treadle.tools.file_history import Before
from treadle.types import Effect, Limits

DepsOut = TypeVar("DepsOut", covariant=True, default=object)
DepsIn = TypeVar("DepsIn", contravariant=True, default=object)
OutOf = TypeVar("OutOf", covariant=True, default=str)
ChildDeps = TypeVar("ChildDeps")
ChildOut = TypeVar("ChildOut")
KeptT = TypeVar("KeptT")

MAX_OUTPUT_CHARS = 30_000
MAX_OUTPUT_LINES = 2_000
MAX_LINE_CHARS = 2_000

_NAME_CHARS = 128
_NAMES_SHOWN = 50

ToolOutput: TypeAlias = "str | Sequence[TextPart | MediaPart]"
"""What an execution gives: text, or text and media.

Anything else was made JSON text before (tools/function).
"""


@dataclass(frozen=True, slots=True)
class Happened:
    """A probe's answer: it did, and this is what it gave."""

    result: str


@dataclass(frozen=True, slots=True)
class DidNotHappen:
    """A probe's answer: it did not."""


class Touched(msgspec.Struct, frozen=True, kw_only=True):
    """What one call touches and nothing else, as its tool says.

    Paths as the call names them: absolute, or from the working directory.
    """

    reads: tuple[str, ...] = ()
    """Files whose contents reach the model, and folders."""
    lists: tuple[str, ...] = ()
    """Folders of which names reach the model, or searches that leave out likely secrets."""
    writes: tuple[str, ...] = ()
    command: str | None = None
    """A command line that a shell runs."""
    hosts: tuple[str, ...] = ()
    own: bool = False
    """Anything else is made by this run, such as its background jobs."""

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
    """Context of one call, with data about its run. Nothing in it survives the call."""

    deps: DepsOut
    """The application's own dependencies, as handed to the run."""
    run_id: str
    session_id: str | None
    call_id: str
    user_id: str | None
    cwd: Path
    """Absolute. Relative paths of tools start here."""
    deadline: float | None
    """On the event loop's clock, in seconds: when this call will be cut. None: no limit."""
    attempt: int
    """From 1; higher where a resume repeats the call."""
    idempotency_key: str
    """The same for every attempt of this call, different for every other call."""
    spill: Callable[[str], Path]
    """Writes text that is too long for the model to a file that it can read on, and gives the path.
    """
    seen_files: dict[str, str] = {}
    """Path -> hash of what the model was last shown of it, for the whole session: a file is read
    before it is changed.
    """
    places: Mapping[str, str] = {}
    """Path as the call names it -> where it led when the call was judged: that place is opened, and
    no link on the way to it is followed.
    """
    withheld: Callable[[str], bool] | None = None
    """Whether a rule of the user's keeps a file (absolute, without links) from being read: a search
    over a folder leaves it out. None: none does.
    """
    is_secret: Callable[[str], bool] = lambda _path: False
    """True for an absolute path that likely holds a credential: a search over a folder names such
    files and does not show them.
    """
    before_change: Callable[[Before], None] | None = None
    """Keeps the content of a file before it is changed, for `treadle runs undo`. None: not kept.
    Blocks.
    """
    environment: Mapping[str, str] = {}
    """The environment for child processes: the provider's keys are not in it."""
    sandbox: Confinement | None = None
    """Confinement of this call's commands.

    None: they are not confined, because no sandbox works, it is switched off, or a person approved
    this call.
    """
    documents: bool = False
    """The run's model is known to read PDF documents, so that a tool can return their pages."""
    kept: dict[Callable[[], Any], Any] = {}
    """What `keep` gave, for the whole session."""
    masking: Callable[[], Masking] | None = None
    """Makes a filter that takes known secrets out of a text that comes in pieces.

    None: there are none. What a tool returns is masked anyway.
    """
    report: Callable[[str, float | None, float | None], None] | None = None
    tell: Callable[[str], None] | None = None
    """What `warn` calls."""
    on_exit: Callable[[int], None] | None = None
    """Receives the exit code that `exited` was given."""
    is_cancelled: Callable[[], bool] | None = None
    late: Callable[[str], None] | None = None
    """Receives, once, the output of a call whose result was `unknown`. Any thread; never blocks."""
    run_child: Callable[..., Awaitable[Any]] | None = None
    """What `spawn` calls, with its own arguments."""

    @property
    def cancelled(self) -> bool:
        """True once the run is being stopped: a sync tool should look, since its thread cannot be
        interrupted.
        """
        return self.is_cancelled() if self.is_cancelled is not None else False

    def progress(self, text: str, done: float | None = None, total: float | None = None) -> None:
        """Tells fronts how far it is (`tool_progress`). Callable from any thread; never blocks."""
        if self.report is not None:
            self.report(text, done, total)

    def warn(self, text: str) -> None:
        """Show people a `warning` in addition to the result.

        Callable from any thread; never blocks.
        """
        if self.tell is not None:
            self.tell(text)

    def exited(self, code: int) -> None:
        """Record the exit code of the command that this call ran, which is shown with its result. A
        process ended by signal N gives -N.
        """
        if self.on_exit is not None:
            self.on_exit(code if code >= 0 else 128 - code)

    def keep(self, kind: Callable[[], KeptT]) -> KeptT:
        """The one of `kind` in this session (in this run, where there is no session), made where
        there is none yet.

        Its `aclose`, where it has one, is awaited when the run without a session ends, or the
        runtime closes. Its `news`, where it has one, is called before each request and returns
        texts that the model reads, each once.
        """
        if kind not in self.kept:
            self.kept[kind] = kind()
        return self.kept[kind]

    async def spawn(
        self,
        agent: SpawnedAgent[ChildDeps, ChildOut],
        text: str | Sequence[Part],
        *,
        deps: ChildDeps = None,
        inputs: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
    ) -> RunResult[ChildOut]:
        """Runs another agent to its end, with a history and limits of its own, and the mode, cwd
        and user of this run.

        What it spends counts on this run's limits too, and on all above. Where this call is
        repeated after a crash, it goes on with the child that it had started. Raises AgentError for
        what is wrong before it starts, (invalid) where no runtime runs this tool; every end after
        that is a value. Cancellation: cancelling this call cancels the child.
        """
        if self.run_child is None:
            raise AgentError(
                "invalid",
                f"call {self.call_id!r} cannot spawn an agent: this tool is not run by a runtime",
            )
        return await self.run_child(agent, text, deps=deps, inputs=inputs, limits=limits)


@runtime_checkable
class Tool(Protocol[DepsIn]):
    """What the loop needs of a tool."""

    @property
    def definition(self) -> ToolDefinition:
        """Name, description and JSON Schema; the same object every time."""
        ...

    @property
    def name(self) -> str: ...

    @property
    def effect(self) -> Effect: ...

    @property
    def parallel(self) -> bool:
        """False: runs alone, after the parallel calls before it in the turn and before those after
        it.
        """
        ...

    @property
    def timeout_s(self) -> float | None: ...

    @property
    def needs_approval(self) -> bool: ...

    @property
    def max_output(self) -> int:
        """Characters of its result that the model is shown; the rest is spilled to a file."""
        ...

    def parse(self, arguments_json: JsonText) -> Any:
        """Validated arguments, in the tool's own form.

        Raises InvalidArguments with what is wrong and what would be right.
        """
        ...

    def touches(self, arguments: Any, cwd: Path) -> Touched | None:
        """For the policy, which judges all that is named here; None where that cannot be said.

        A pure tool that says None is let run.
        """
        ...

    async def execute(self, ctx: ToolContext[DepsIn], arguments: Any) -> ToolOutput:
        """Run it with what `parse` gave. Raises ToolFailed for the model, which also reads any
        other exception.

        After any other exception, the outcome of a `once` call is unknown.

        Cancellation: stops its work and leaves nothing running before it re-raises.
        """
        ...

    async def probe(self, ctx: ToolContext[DepsIn], arguments: Any) -> ProbeAnswer:
        """Whether a once-call with what `parse` gave happened; None where it cannot tell. It
        changes nothing itself.

        Asked when the call had started and its result is not known, because the process died in it.
        What it raises counts as None.
        """
        ...


class SpawnedAgent(Protocol[DepsIn, OutOf]):
    """What `spawn` needs of an `Agent`, which stands on a floor above."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def own_tools(self) -> Sequence[Tool[DepsIn]]: ...

    @property
    def output(self) -> TypeForm[OutOf] | Mapping[str, object] | None: ...


class ToolProvider(Protocol):
    """Something whose tools runs may have, once it was asked for them (tools/mcp)."""

    @property
    def name(self) -> str: ...
    @property
    def secrets(self) -> frozenset[str]:
        """Values that must not be shown."""
        ...


class LateTools(Protocol):
    """Tools that may come while a run is under way."""

    def take(self) -> tuple[Sequence[Tool[Any]], Sequence[str]]:
        """The tools that have come since the last call, and what to tell people."""
        ...


class ToolRegistry:
    """Tools by name: register, get in O(1), list, remove, execute. Names are unique."""

    def __init__(
        self,
        tools: Sequence[Tool[Any]] = (),
        offers: Callable[[Tool[Any]], bool] = lambda tool: True,
    ) -> None:
        """`offers`: whether the model sees a tool."""
        self._tools, self._offers = dict[str, Tool[Any]](), offers
        for tool in tools:
            self.register(tool)

    def register(self, tool: Tool[Any]) -> None:
        """Raises AgentError(invalid) where the name is taken."""
        if tool.name in self._tools:
            raise AgentError(
                "invalid", f"two tools are named {tool.name!r}: tool names are unique, rename one"
            )
        self._tools[tool.name] = tool

    def get(self, name: str) -> Tool[Any] | None:
        return self._tools.get(name)

    def list(self) -> list[Tool[Any]]:
        """In the order of registration."""
        return [*self._tools.values()]

    def remove(self, name: str) -> bool:
        """False where there was none."""
        return self._tools.pop(name, None) is not None

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """What a request needs, in the order of registration."""
        return tuple(t.definition for t in self._tools.values() if self._offers(t))

    async def execute(
        self, name: str, ctx: ToolContext[Any], arguments_json: JsonText
    ) -> ToolOutput:
        """Raises InvalidArguments for an unknown tool or arguments that do not fit, else what the
        tool raises.
        """
        tool = self._tools.get(name)
        if tool is None:
            raise InvalidArguments(unknown_tool(name, list(self._tools)))
        return await tool.execute(ctx, tool.parse(arguments_json))

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[Tool[Any]]:
        return iter(self._tools.values())


def unknown_tool(name: str, known: Sequence[str]) -> str:
    """What the model reads when it asks for a tool that is not there. Bounded, whatever it wrote."""  # noqa: E501
    close = closest(name, known)
    hint = f"Did you mean {close!r}? " if close is not None else ""
    shown = ", ".join(known[:_NAMES_SHOWN]) + (
        f" and {len(known) - _NAMES_SHOWN} more" if len(known) > _NAMES_SHOWN else ""
    )
    return f"There is no tool named {name[:_NAME_CHARS]!r}. {hint}Available: {shown or 'none'}."


def closest(word: str, words: Sequence[str]) -> str | None:
    """The one that was probably meant, upper and lower case alike; None where none is near."""
    from difflib import get_close_matches  # noqa: PLC0415  costs 5 ms of start-up, and models rarely miss

    folded = {w.casefold(): w for w in reversed(words)}
    found = get_close_matches(word[:_NAME_CHARS].casefold(), folded, n=1)
    return folded[found[0]] if found else None


def failure(call_id: str, name: str, text: str, *, unknown: bool = False) -> ToolResult:
    return ToolResult(call_id=call_id, name=name, content=text, is_error=True, unknown=unknown)
