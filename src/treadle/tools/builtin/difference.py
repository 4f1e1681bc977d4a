"""Short diffs of two texts, for the model and for users who approve or follow a run.

See also: patches that can be applied. Entry points: `short_difference`, `difference`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

MAX_LINES = 40
_MAX_LINE_CHARS = 200
_CONTEXT = 3
_MAX_COMPARED = 4_000
_TOO_MUCH = "too much to show @@"


def short_difference(before: str, after: str) -> str:
    """Return a unified diff without file names, of at most 40 lines; the last one states how many
    were omitted. Empty if the texts are equal.
    """
    lines = [line[:_MAX_LINE_CHARS] for line in difference(before, after)]
    if len(lines) > MAX_LINES:
        lines = [
            *lines[: MAX_LINES - 1],
            f"(… {len(lines) - MAX_LINES + 1} more lines of difference)",
        ]
    return "\n".join(lines)


def difference(before: str, after: str) -> list[str]:
    """Return the complete diff, line by line.

    Texts that differ too much are not compared: the result is then one line that says so.
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
    """Return True if the texts are too different for `difference` to compare."""
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
