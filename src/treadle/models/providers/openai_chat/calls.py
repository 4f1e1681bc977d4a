"""Assembly of tool calls from fragments, however a server numbers, names and splits them.

Deltas cover one call at a time: if fragments of several calls are interleaved, later calls wait.
stream.py handles the rest of a response. Entry points: `Calls`.
"""

from __future__ import annotations

import re

from treadle.errors import AgentError
from treadle.models.model import ArgumentsDelta, Delta, PartEnd, ToolCallStart
from treadle.models.providers.decoding import verbatim
from treadle.models.providers.encoding import Fields, is_object
from treadle.models.providers.openai_chat.events import CallPiece, Function

PROVIDER = "openai-chat"

_PLAIN_END = PartEnd()


_OUTSIDE = re.compile(r'["{}\[\]]')
_IN_STRING = re.compile(r'"|\\.?', re.DOTALL)


class _Shape:
    """Incremental scan of a JSON object, which distinguishes strings from brackets and reads each
    character once.
    """

    __slots__ = ("_depth", "_escaped", "_quoted", "ended", "more")

    def __init__(self) -> None:
        self._depth = 0
        self._escaped = self._quoted = False
        self.ended = False
        """True after the last bracket."""
        self.more = False
        """True if there is other content after the end."""

    def add(self, piece: str) -> None:
        at = int(self._escaped)
        self._escaped = self._escaped and not piece
        while (
            not self.ended
            and (found := (_IN_STRING if self._quoted else _OUTSIDE).search(piece, at)) is not None
        ):
            at = found.end()
            match found[0]:
                case '"':
                    self._quoted = not self._quoted
                case "{" | "[":
                    self._depth += 1
                case "}" | "]":
                    self._depth -= 1
                    self.ended = self._depth <= 0
                case escape:
                    self._escaped = len(escape) == 1
        if self.ended:
            self.more = self.more or bool(piece[at:].strip())


class _Call:
    __slots__ = (
        "_looked_at",
        "_shape",
        "_whole",
        "closed",
        "extra",
        "id",
        "name",
        "pieces",
        "told",
    )

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.pieces: list[str] = []
        self.extra: Fields = {}
        self.told = False
        self.closed = False
        self._shape = _Shape()
        self._looked_at = 0
        """Number of fragments scanned."""
        self._whole: bool | None = None

    def is_whole(self) -> bool:
        """Return True if the arguments received so far could be complete.

        Parses them once, after they have ended like an object.
        """
        for piece in self.pieces[self._looked_at :]:
            self._shape.add(piece)
        self._looked_at = len(self.pieces)
        if self._whole is None and self._shape.ended:
            self._whole = is_object("".join(self.pieces))
        return bool(self._whole) and not self._shape.more

    def rename(self, name: str) -> None:
        """Update the name, which may arrive once, in fragments, or again with each fragment. After
        the first arguments it is final.
        """
        if not self.pieces and name != self.name:
            self.name = name if name.startswith(self.name) else self.name + name

    def tell(self, deltas: list[Delta]) -> None:
        """Emit the start and the content received so far."""
        self.told = True
        deltas.append(ToolCallStart(self.id, self.name))
        deltas += [ArgumentsDelta(piece) for piece in self.pieces]

    def close(self, deltas: list[Delta]) -> None:
        if not self.told:
            self.tell(deltas)
        self.closed = True
        deltas.append(
            PartEnd(PROVIDER, verbatim({"extra_content": self.extra})) if self.extra else _PLAIN_END
        )


class Calls:
    """Calls of one response, in the order in which they begin."""

    __slots__ = ("_all", "_by_index", "_closed", "_stuck", "failure")

    def __init__(self) -> None:
        self._all: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._closed = 0
        """Number of calls, from the first, that were emitted completely. The next one is emitted
        while it arrives.
        """
        self._stuck = False
        """True if other content arrived before that call was complete, so that it ends only with
        the response.
        """
        self.failure: AgentError | None = None

    def __bool__(self) -> bool:
        return bool(self._all)

    @property
    def open(self) -> bool:
        return self._closed < len(self._all)

    @property
    def are_whole(self) -> bool:
        """True if no call seems to be cut."""
        return all(not call.pieces or call.is_whole() for call in self._all[self._closed :])

    def add(self, pieces: list[CallPiece], deltas: list[Delta]) -> None:
        for piece in pieces:
            if (text := self._goes_on(piece)) is not None:
                deltas.append(ArgumentsDelta(text))
                continue
            if _is_empty(piece):  # some servers add the fields of a call to every answer
                continue
            call = self._meant(piece)
            if piece.id:
                call.id = call.id or piece.id
            if piece.extra_content:
                call.extra = {**call.extra, **piece.extra_content}
            if (function := piece.function) is None:
                continue
            if function.name:
                call.rename(function.name)
            if (arguments := function.arguments) is not None:
                self._add_arguments(
                    call, arguments if isinstance(arguments, str) else verbatim(arguments), deltas
                )

    def _goes_on(self, piece: CallPiece) -> str | None:
        """Return the text of a typical fragment, which only continues the call being emitted, or
        else None.
        """
        if (
            self._closed == len(self._all)
            or piece.index is None
            or piece.id
            or piece.extra_content is not None
            or (function := piece.function) is None
        ):
            return None
        call = self._all[self._closed]
        if (
            not call.told
            or self._by_index.get(piece.index) is not call
            or function.name
            or type(text := function.arguments) is not str
            or not text
        ):
            return None
        call.pieces.append(text)
        return text

    def _add_arguments(self, call: _Call, text: str, deltas: list[Delta]) -> None:
        if not text:
            return
        if call.closed:
            if text.strip():
                self.failure = AgentError(
                    "network",
                    (
                        f"the stream is invalid: it has more arguments for {call.name!r} after its "
                        "end"
                    ),
                )
            return
        if not call.pieces and self._all[self._closed] is not call:
            self.pause(deltas)
        call.pieces.append(text)
        if self._all[self._closed] is not call:
            return
        if call.told:
            deltas.append(ArgumentsDelta(text))
        else:
            call.tell(deltas)

    def pause(self, deltas: list[Delta]) -> bool:
        """Close complete calls because other content has begun.

        Returns False if a call is incomplete, and the other content must wait for it.
        """
        while self.open and not self._stuck:
            call = self._all[self._closed]
            if not call.is_whole():
                break
            self._close_next(deltas)
        self._stuck = self._stuck or self.open
        return not self.open

    def finish(self, deltas: list[Delta]) -> None:
        while self.open:
            self._close_next(deltas)

    def _close_next(self, deltas: list[Delta]) -> None:
        self._all[self._closed].close(deltas)
        self._closed += 1

    # ------------------------------------------------------------ which call a piece is of

    def _meant(self, piece: CallPiece) -> _Call:
        """Return the call that this fragment continues, or a new one."""
        function = piece.function or Function()
        name = function.name or ""
        call = self._candidate(piece, name)
        # some servers send a new call id with each fragment
        another = (
            call is not None
            and piece.id
            and call.id
            and piece.id != call.id
            and (name or call.is_whole())
        )
        if (
            call is not None
            and not another
            and not (name and _says_something(function.arguments) and call.is_whole())
        ):
            return call
        call = _Call()
        self._all.append(call)
        if piece.index is not None:
            self._by_index[piece.index] = call
        return call

    def _candidate(self, piece: CallPiece, name: str) -> _Call | None:
        if piece.index is not None:
            return self._by_index.get(piece.index)
        if piece.id:
            return next((call for call in reversed(self._all) if call.id == piece.id), None)
        last = self._all[-1] if self._all else None
        # a name without an index begins a call, unless it is repeated with each fragment
        return (
            last if last is not None and (not name or (last.name == name and last.pieces)) else None
        )


def _is_empty(piece: CallPiece) -> bool:
    function = piece.function
    return not (
        piece.id
        or piece.extra_content
        or (function is not None and (function.name or function.arguments))
    )


def _says_something(arguments: str | Fields | None) -> bool:
    return bool(arguments.strip() if isinstance(arguments, str) else arguments)
