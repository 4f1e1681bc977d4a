"""Codec of exported runs: one JSON line per entry, which restores the entry byte for byte. Entry
points: `export_lines`, `lines_of`, `read_lines`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import IO

from treadle._internal.json_text import decode_json, members
from treadle.cli.exits import CommandFailed
from treadle.errors import AgentError
from treadle.journal.entries import RunStarted
from treadle.journal.entry_codec import read_entry
from treadle.journal.import_bounds import LINE_BYTES, ImportBounds


def export_lines(entries: Sequence[bytes]) -> list[bytes]:
    """Return `{"seq", "type", "call_id"?, "entry"}` for each entry, without line ends; `entry` is
    as stored.
    """
    return [_line(seq, entry) for seq, entry in enumerate(entries, 1)]


def _line(seq: int, entry: bytes) -> bytes:
    fields = members(entry.decode())
    call_id = fields.get("call_id")
    if call_id is None and "result" in fields:
        call_id = members(fields["result"]).get("call_id")
    about = b"" if call_id is None else b'"call_id":' + call_id.encode() + b","
    return b'{"seq":%d,"type":%s,%s"entry":%s}' % (seq, fields["type"].encode(), about, entry)


def lines_of(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of an export, with their line ends.

    At most `LINE_BYTES` and one byte of a line are read: `read_lines` refuses a longer one.
    """
    while line := file.readline(LINE_BYTES + 1):
        yield line


def read_lines(lines: Iterable[bytes], name: str) -> list[bytes]:
    """Return the entries in `lines`, from the file `name`. Takes no more lines after a broken one,
    or after one that exceeds a limit of `ImportBounds`.

    Raises CommandFailed with the number of that line.
    """
    entries: list[bytes] = []
    bounds = ImportBounds()
    for number, line in enumerate(lines, 1):
        try:
            bounds.line(len(line))
            if line.strip():
                entries.append(_entry(line, len(entries) + 1, bounds))
        except (ValueError, AgentError) as e:
            raise CommandFailed(f"{name}:{number}: {_reason(e, line)}. Nothing was imported") from e
    if not entries:
        raise CommandFailed(f"{name} is empty: nothing was imported")
    return entries


def _reason(error: ValueError | AgentError, line: bytes) -> str:
    """Return the error in a line, with the next step if the line cannot be part of an export."""
    if isinstance(error, AgentError):
        return error.message
    if isinstance(error, UnicodeDecodeError) or not line.lstrip().startswith(b"{"):
        return (
            "this is not an export, which has one JSON object on each line: write one with "
            "`treadle runs export`, and unpack it if it is packed"
        )
    if not line.endswith(b"\n") and not line.rstrip().endswith(b"}"):
        return "the file ends within this line: export the run again, or copy the file again"
    return str(error)


def _entry(line: bytes, seq: int, bounds: ImportBounds) -> bytes:
    """Return the entry in a line. Raises ValueError or AgentError if it is not entry number `seq`
    of a run.
    """
    text = line.decode()
    bounds.text(text)
    fields = members(text)
    if missing := [name for name in ("seq", "type", "entry") if name not in fields]:
        raise ValueError(f"the line has no {missing[0]!r}")
    if (said := decode_json(fields["seq"].encode(), int)) != seq:
        raise ValueError(
            f"its seq is {said} where {seq} comes next: a line is missing, or there is one too many"
        )
    data = fields["entry"].encode()
    entry = read_entry(data)
    bounds.inside(entry)
    kind = str(entry.__struct_config__.tag)
    if (named := decode_json(fields["type"].encode(), str)) != kind:
        raise ValueError(f"its type is {named!r}, and that of its entry {kind!r}")
    if (seq == 1) is not isinstance(entry, RunStarted):
        raise ValueError("a run must begin with run.started, and have only one")
    return data
