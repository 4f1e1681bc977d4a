"""Completions: commands after `/` at the beginning, their arguments, and files after `@` at the
beginning of a word. Entry points: `Suggestions`.

Files come from file_names.py, commands from commands/registry.py. Everything except `drawn` runs in
a thread.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from typing_extensions import override

from treadle._internal.terminal_text import columns, cut, one_line
from treadle.config import Config
from treadle.tui.commands.registry import SlashCommands
from treadle.tui.file_names import FileNames
from treadle.tui.slot import Line
from treadle.tui.theme import Theme

if TYPE_CHECKING:
    from treadle.journal.sessions import Sessions

ROWS_MAX: Final = 6
OFFERED_MAX: Final = 50
KEPT_S: Final = 30.0
"""Seconds for which the list of models is cached."""

_COMMAND: Final = re.compile(r"/(\S*)")
_ARGUMENT: Final = re.compile(r"/(\S+)[ \t]+(\S*)")
_MENTION: Final = re.compile(r'(?<![\w@./\\)\]-])@("[^"]*|[^\s"@]*)$')
"""Pattern of a mention, as in mentions.py."""
_MODES: Final[Mapping[str, str]] = {
    "ask": "reads, asks for everything else",
    "accept-edits": "reads and edits files",
    "plan": "reads, and changes nothing",
    "full": "runs everything",
}


class Suggestions(Completer):
    """Completer of one chat.

    Offers only what is known locally: it sends no network requests.
    """

    def __init__(
        self, cwd: Path, config: Config, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.commands = SlashCommands()
        self.sessions: Sessions | None = None
        """Source of session ids for `/resume`, set when the runtime exists."""
        self.files = FileNames(cwd, secrets=config.secrets(), clock=clock)
        self._config, self._clock = config, clock
        self._models: tuple[float, list[str]] | None = None

    @override
    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        """Yield at most 50 completions, best matches first."""
        before = document.text_before_cursor
        if (mention := _MENTION.search(document.current_line_before_cursor)) is not None:
            yield from self._mentions(mention[1])
        elif (command := _COMMAND.fullmatch(before)) is not None:
            yield from self._commands(command[1])
        elif (argument := _ARGUMENT.fullmatch(before)) is not None:
            yield from self._arguments(argument[1], argument[2])

    # ------------------------------------------------------------ commands

    def _commands(self, typed: str) -> Iterator[Completion]:
        """Yield commands that begin with the text, then those that contain it."""
        typed, known = typed.lower(), [*self.commands]
        begun = [command for command in known if command.name.lower().startswith(typed)]
        held = [
            command for command in known if typed in command.name.lower() and command not in begun
        ]
        for command in [*begun, *held][:OFFERED_MAX]:
            text = f"/{command.name}{' ' if command.usage else ''}"
            shown = f"/{command.name} {command.usage}".rstrip()
            yield Completion(
                text,
                start_position=-len(typed) - 1,
                display=one_line(shown, 60),
                display_meta=one_line(command.summary),
            )

    def _arguments(self, name: str, typed: str) -> Iterator[Completion]:
        found = self.commands.find(f"/{name}")
        if not isinstance(found, tuple) or found[0].own:
            return
        offered: Iterable[tuple[str, str]]
        match found[0].name:
            case "mode":
                offered = _MODES.items()
            case "model":
                offered = ((model, "") for model in self._model_names())
            case "resume":
                offered = self._session_ids()
            case _:
                return
        typed = typed.casefold()
        fitting = [
            (text, about)
            for text, about in offered
            if typed in text.casefold() or typed in about.casefold()
        ]
        fitting.sort(key=lambda pair: not pair[0].casefold().startswith(typed))
        for text, about in fitting[:OFFERED_MAX]:
            yield Completion(
                text,
                start_position=-len(typed),
                display=one_line(text),
                display_meta=one_line(about, 60),
            )

    def _session_ids(self) -> Iterator[tuple[str, str]]:
        if self.sessions is not None:
            yield "last", "the most recently changed one"
            yield from ((info.id, info.title) for info in self.sessions.list()[: 4 * OFFERED_MAX])

    def _model_names(self) -> list[str]:
        if self._models is None or self._clock() - self._models[0] > KEPT_S:
            self._models = (self._clock(), _models_offline(self._config))
        return self._models[1]

    # ------------------------------------------------------------ files

    def _mentions(self, typed: str) -> Iterator[Completion]:
        for path in self.files.find(typed.removeprefix('"').removeprefix("./")):
            if '"' not in path:  # a mention cannot express such a path
                yield Completion(
                    _mentioned(path), start_position=-len(typed) - 1, display=one_line(path, 400)
                )

    # ------------------------------------------------------------ drawing

    def drawn(self, buffer: Buffer, rows: int, width: int, theme: Theme) -> list[Line]:
        """Return as many completions as fit, at most six, around the selected one."""
        state = buffer.complete_state
        if state is None or not state.completions:
            return []
        offered, most = state.completions, min(rows, ROWS_MAX)
        chosen = state.complete_index
        first = max(min((chosen or 0) - most // 2, len(offered) - most), 0)
        shown = offered[first : first + most]
        wide = max((columns(one.display_text) for one in shown), default=0)
        return [
            _row(one, min(wide, width - 4), width, theme, is_chosen=first + n == chosen)
            for n, one in enumerate(shown)
        ]


def _row(offered: Completion, wide: int, width: int, theme: Theme, *, is_chosen: bool) -> Line:
    """Return a line with a mark, the completion and its description."""
    mark = f"{theme.glyphs.prompt if is_chosen else ' '} "
    name = cut(offered.display_text, max(wide, 1))
    name += " " * (wide - columns(name))
    line: Line = [(theme.toolkit("selected" if is_chosen else "assistant"), mark + name)]
    room = width - columns(mark) - wide - 3
    if offered.display_meta_text and room > 3:
        line.append((theme.toolkit("dim"), f"  {cut(offered.display_meta_text, room)}"))
    return line


def _mentioned(path: str) -> str:
    """Return the mention of a path; the quotes of a directory stay open for further typing."""
    if not re.search(r"[\s@]", path):
        return f"@{path}"
    return f'@"{path}' + ("" if path.endswith("/") else '"')


def _models_offline(config: Config) -> list[str]:
    """Return the models that providers reported earlier, or the known ones of their vendors.

    Providers with errors are skipped; their use reports the error.
    """
    from treadle.errors import AgentError  # noqa: PLC0415  not needed for the first frame
    from treadle.models.providers.known_models import known_ids  # noqa: PLC0415  not needed for the first frame
    from treadle.models.providers.told_models import told  # noqa: PLC0415  not needed for the first frame
    from treadle.runtime.model_catalog import providers  # noqa: PLC0415  not needed for the first frame

    found = dict.fromkeys((config.models.large, config.models.small, *config.fallback.models))
    for name in providers(config):
        try:
            endpoint = config.endpoint(name, to_ask=False)
            heard = [*told(config.home, endpoint)] if config.home is not None else []
        except AgentError:
            continue
        found |= dict.fromkeys(
            f"{name}:{model_id}"
            for model_id in heard or known_ids(endpoint.type, endpoint.base_url)
        )
    return [*found]
