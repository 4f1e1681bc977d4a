"""Validation of a run's arguments and options, and merging with those of its agent and the
configuration.

Entry points: `merged_settings`, `merged_limits`, `limits_over`, `answers_of`, `checked_mode`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args

import msgspec

from treadle.agents.agent import Agent, Deps
from treadle.errors import AgentError
from treadle.journal.entries import RunStarted
from treadle.journal.run_state import RunState
from treadle.journal.session_names import check_session_id
from treadle.journal.window import MAX_SESSION_MESSAGES
from treadle.loop.answers import Answers
from treadle.loop.plan import ParentCall
from treadle.messages.labels import checked_metadata, checked_tags
from treadle.messages.message import MediaPart, Message, Prompt, encode_json
from treadle.messages.result import Out
from treadle.models.model import Model
from treadle.runtime.chosen_model import ChosenModel
from treadle.runtime.model_choice import ModelChoice
from treadle.runtime.session import ForkOptions, ResumeOptions, RunOptions, Session, WakeOptions
from treadle.tools.approval import check_texts
from treadle.types import NOTHING_SET, Limits, Mode, OnAsk, OnUnknown, Settings

if TYPE_CHECKING:
    from treadle.models.providers.run_headers import RunHeaders

DEFAULT_LIMITS = Limits(turns=100)
"""Limits of a run that sets none."""
_WORDS = (("on_ask", get_args(OnAsk)), ("on_unknown", get_args(OnUnknown)))
_MODES = get_args(Mode)
_LABELS: dict[str, Callable[[object], object]] = {
    "tags": checked_tags,
    "metadata": checked_metadata,
}


def answers_of(options: ResumeOptions | WakeOptions) -> Answers:
    """Return the answers to open calls.

    Raises AgentError(invalid) for values that a journal cannot store.
    """
    approve: object = options.get("approve", ())
    if not isinstance(approve, Iterable):
        raise AgentError(
            "invalid",
            f"approve= takes the ids of calls, not {approve!r}: the calls that wait are in "
            "(await runtime.journal.load(run_id)).asked",
        )
    for name in ("deny", "results"):
        check_texts(name, options.get(name, {}))
    return Answers(
        on_unknown=options.get("on_unknown"),
        approve=frozenset(
            [approve] if isinstance(approve, str) else cast("Iterable[str]", approve)
        ),
        deny=options.get("deny", {}),
        results=options.get("results", {}),
        seen=options.get("seen"),
    )


def merged_settings(
    call: Settings, lower: Settings, model: Model
) -> tuple[Settings, tuple[str, ...]]:
    """Merge the settings of the call over those of agent and configuration.

    A setting that the model refuses is an error in the call, and otherwise dropped with a warning.
    """
    refuses = model.refuses
    if refuses and (wrong := sorted(call.given & refuses)):
        raise AgentError("invalid", f"{model.name} does not accept {wrong[0]}: leave it out")
    settings = call.over(lower)
    dropped = sorted(settings.given & refuses) if refuses else []
    if dropped:
        settings = msgspec.structs.replace(settings, **dict.fromkeys(dropped))
    notes: Callable[[Settings], tuple[str, ...]] | None = getattr(model, "notes", None)
    changed = notes(settings) if notes is not None else ()
    return settings, (
        *(f"{model.name} does not accept {name}: it was left out" for name in dropped),
        *(f"{model.name}: {note}" for note in changed),
    )


def output_settings(agent: Agent[Any, Any]) -> Settings:
    """Return the settings that a typed answer needs. Empty if a tool receives the answer."""
    return (
        NOTHING_SET
        if agent.answer is None or agent.completion
        else Settings(output_schema=agent.answer.schema)
    )


def given_schema(agent: Agent[Any, Any], settings: Settings) -> str | None:
    """Return a schema that another process could not derive from the request to the model."""
    output: object = agent.output
    return (
        encode_json(cast("object", output)).decode()
        if isinstance(output, Mapping) and settings.output_schema != output
        else None
    )


def check_images(prompt: Message, chosen: ChosenModel, settings: Settings) -> None:
    """Raise AgentError(invalid) for an image in the prompt of a model without them."""
    if (
        settings.unsupported_media != "warn"
        and "images" in chosen.model.refuses
        and (
            image := next(
                (p for p in prompt.parts if isinstance(p, MediaPart) and p.is_image), None
            )
        )
    ):
        raise AgentError(
            "invalid",
            (
                f"{chosen.name} takes no images: leave out {image.name or 'the image'} "
                f"({image.media_type}), choose another model, or pass unsupported_media='warn'"
            ),
        )


def merged_limits(call: Limits | None, agent: Agent[Any, Any]) -> Limits:
    if call is None or agent.limits is None:
        return call or agent.limits or DEFAULT_LIMITS
    return limits_over(call, agent.limits)


def limits_over(call: Limits | None, lower: Limits) -> Limits:
    merged = {
        name: value
        for limits in (lower, call)
        if limits is not None
        for name, value in msgspec.structs.asdict(limits).items()
        if value is not None
    }
    return Limits(**merged)


def check_words(options: Mapping[str, Any]) -> None:
    """Raise AgentError(invalid) for texts that the journal could not read back."""
    for name, words in _WORDS:
        if options.get(name) not in (None, *words):
            raise AgentError(
                "invalid", f"{name}={options[name]!r} is not one of: {', '.join(words)}"
            )
    if not isinstance(options.get("user_id"), str | None):
        raise AgentError(
            "invalid",
            f"user_id= is a value of type {type(options['user_id']).__name__}: pass a string, "
            "like str(id)",
        )


def labels_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the user and the labels of a new run, as fields of its plan.

    Raises AgentError(invalid).
    """
    labels = {} if options.keys().isdisjoint(_LABELS) else _checked(options)
    return {"user_id": options.get("user_id"), **labels}


def _checked(given: Mapping[str, object]) -> dict[str, object]:
    return {name: check(given[name]) for name, check in _LABELS.items() if name in given}


def labels_again(started: RunStarted) -> dict[str, Any]:
    """Return the user and the labels of a stored run, as fields of a plan."""
    return {name: getattr(started, name) for name in ("user_id", *_LABELS)}


def checked_mode(mode: str) -> Mode:
    """Validate a mode. Raises AgentError(invalid)."""
    if mode not in _MODES:
        raise AgentError("invalid", f"mode={mode!r} is not one of: {', '.join(_MODES)}")
    return mode  # pyright: ignore[reportReturnType]  it is one of them


def directory_of(cwd: str | Path | None) -> Path:
    if cwd is None:
        return Path.cwd()  # the system returns an absolute, resolved path of a directory
    path = Path(cwd)
    if not path.is_dir():
        raise AgentError("invalid", f"cwd={str(path)!r} is not a directory")
    return path.resolve()


class ForkPoint(NamedTuple):
    """Point from which a forked run continues, and the user's next message."""

    run_id: str
    turn: int
    text: Prompt | None


def forked_options(
    agent: Agent[Deps, Out], started: RunStarted, state: RunState, options: ForkOptions
) -> tuple[Agent[Deps, Out], RunOptions]:
    """Return the agent and the options of a fork: those of its origin, unless it names its own."""
    model = options.get("model") or (
        state.model if isinstance(agent.model, str | None) else agent.model
    )
    same = agent.name == started.agent
    known = same or agent.name in (state.agent.name, *state.agent.before)
    inputs = msgspec.json.decode(started.inputs, type=dict[str, Any])
    given: RunOptions = {
        "mode": state.mode,
        "cwd": state.cwd,
        "user_id": started.user_id,
        "tags": started.tags,
        "metadata": started.metadata,
        "on_ask": started.on_ask,
        "on_unknown": started.on_unknown,
        "inputs": agent.used_inputs(inputs) if known else {},
        **{k: v for k, v in options.items() if k not in ("model", "results")},
    }  # pyright: ignore[reportAssignmentType]  what is left are a run's
    settings = started.settings if same else agent.settings
    return replace(agent, model=model, limits=started.limits, settings=settings), given


def check_agent(agent: object) -> None:
    if not isinstance(agent, Agent):
        raise AgentError(
            "invalid",
            (
                "the first argument must be the agent, like Agent(name=…), not a "
                f"{type(agent).__name__}; the second one is the prompt"
            ),
        )


def limit_of(session: Session[Any, Any] | str | None) -> int:
    """Return the maximum number of the session's messages that a run sees."""
    own = session.limit if isinstance(session, Session) else None
    return MAX_SESSION_MESSAGES if own is None else own


def session_id_of(session: Session[Any, Any] | str | None) -> str | None:
    session = session.id if isinstance(session, Session) else session
    if session is not None:
        check_session_id(session)
    return session


def headers_of(
    choice: ModelChoice,
    asked: str | Model,
    options: RunOptions | ResumeOptions,
    caller: ParentCall | None,
    *,
    submits: bool = False,
) -> RunHeaders | None:
    """Return the headers of a run whose model is `asked`: those of its parent, if it has one.

    Raises AgentError(invalid).
    """
    if caller is not None:
        return caller.plan.headers
    if (given := options.get("headers")) is None:
        return None
    if submits:
        raise AgentError(
            "invalid",
            "headers= cannot be submitted, because they are not stored: set them where the "
            "run is driven, with Provider(headers=…) in the worker's configuration",
        )
    return choice.headers(asked, given)
