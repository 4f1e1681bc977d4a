"""What changed between two texts, in few lines: for the model, and for whoever approves or reads
along.

Not here: patches that can be applied. Entry: `short_difference`, `difference`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

MAX_LINES = 40
_MAX_LINE_CHARS = 200
_CONTEXT = 3
_MAX_COMPARED = 4_000
_TOO_MUCH = "too much to show @@"


def short_difference(before: str, after: str) -> str:
    """A unified diff without file names, of at most 40 lines; what is left out is said in the last.

    Empty where nothing changed.
    """
    lines = [line[:_MAX_LINE_CHARS] for line in difference(before, after)]
    if len(lines) > MAX_LINES:
        lines = [
            *lines[: MAX_LINES - 1],
            f"(… {len(lines) - MAX_LINES + 1} more lines of difference)",
        ]
    return "\n".join(lines)


def difference(before: str, after: str) -> list[str]:
    """The same, whole: every line of it.

    Texts of which too much is different are not compared, which its one line says then.
    """
    if all(text.endswith("\n") or not text for text in (before, after)):
        before, after = before.removesuffix("\n"), after.removesuffix("\n")
    old, new = before.split("\n") if before else [], after.split("\n") if after else []
    same = _alike(old, new)
    same_end = _alike(old[same:][::-1], new[same:][::-1])
    first = max(same - _CONTEXT, 0)
    old = old[first : len(old) - max(same_end - _CONTEXT, 0)]
    new = new[first : len(new) - max(same_end - _CONTEXT, 0)]
    if old == new:
        return []
    if len(old) + len(new) > _MAX_COMPARED:
        return [f"@@ lines {first + 1}-{first + len(old)} became {len(new)} lines: {_TOO_MUCH}"]
    return list(_hunks(old, new, first))


def is_too_much(before: str, after: str) -> bool:
    """True if `difference` only says that these texts are too different to be compared."""
    return len(lines := difference(before, after)) == 1 and lines[0].endswith(_TOO_MUCH)


def _alike(old: Sequence[str], new: Sequence[str]) -> int:
    return next(
        (i for i, (was, now) in enumerate(zip(old, new, strict=False)) if was != now),
        min(len(old), len(new)),
    )


def _hunks(old: Sequence[str], new: Sequence[str], first: int) -> Iterator[str]:
    from difflib import SequenceMatcher  # noqa: PLC0415  not before the first edit

    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_CONTEXT):
        i1, i2, j1, j2 = group[0][1], group[-1][2], group[0][3], group[-1][4]
        yield f"@@ -{first + i1 + 1},{i2 - i1} +{first + j1 + 1},{j2 - j1} @@"
        for tag, a, b, c, d in group:
            if tag == "equal":
                yield from (f" {line}" for line in old[a:b])
            else:
                yield from (f"-{line}" for line in old[a:b])
                yield from (f"+{line}" for line in new[c:d])
