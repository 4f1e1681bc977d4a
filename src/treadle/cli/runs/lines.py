"""A run as JSON lines, one an entry, and back: what leaves a journal is what another one takes in,
byte for byte. Entry: `export_lines`, `read_lines`.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle._internal.json_text import decode_json, members
from treadle.cli.exits import CommandFailed
from treadle.errors import AgentError
from treadle.journal.entries import RunStarted, read_entry


def export_lines(entries: Sequence[bytes]) -> list[bytes]:
    """`{"seq", "type", "call_id"?, "entry"}` for each, without line ends; the entry as it is
    stored.
    """
    return [_line(seq, entry) for seq, entry in enumerate(entries, 1)]


def _line(seq: int, entry: bytes) -> bytes:
    fields = members(entry.decode())
    call_id = fields.get("call_id")
    if call_id is None and "result" in fields:
        call_id = members(fields["result"]).get("call_id")
    about = b"" if call_id is None else b'"call_id":' + call_id.encode() + b","
    return b'{"seq":%d,"type":%s,%s"entry":%s}' % (seq, fields["type"].encode(), about, entry)


def read_lines(data: bytes, name: str) -> list[bytes]:
    """The entries.

    Raises Failed that names the number of the first line that is broken; `name`: the file's.
    """
    entries: list[bytes] = []
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            entries.append(_entry(line, len(entries) + 1))
        except (ValueError, AgentError) as e:
            reason = e.message if isinstance(e, AgentError) else str(e)
            raise CommandFailed(f"{name}:{number}: {reason}. Nothing was imported") from e
    if not entries:
        raise CommandFailed(f"{name} is empty: nothing was imported")
    return entries


def _entry(line: bytes, seq: int) -> bytes:
    """Raises ValueError or AgentError for a line that does not hold entry number `seq` of a run."""
    fields = members(line.decode())
    if missing := [name for name in ("seq", "type", "entry") if name not in fields]:
        raise ValueError(f"the line has no {missing[0]!r}")
    if (said := decode_json(fields["seq"].encode(), int)) != seq:
        raise ValueError(
            f"its seq is {said} where {seq} comes next: a line is missing, or there is one too many"
        )
    data = fields["entry"].encode()
    entry = read_entry(data)
    kind = str(entry.__struct_config__.tag)
    if (named := decode_json(fields["type"].encode(), str)) != kind:
        raise ValueError(f"its type is {named!r}, and that of its entry {kind!r}")
    if (seq == 1) is not isinstance(entry, RunStarted):
        raise ValueError("a run begins with one run.started, and has no other")
    return data
