"""Approval of the file mentions in a prompt, by the read policy and the user, before any file is
read. Entry points: `approved_mentions`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from anyio import to_thread

from treadle._internal.terminal_text import revealed
from treadle._internal.units import count
from treadle.policy.decision import FindingKind
from treadle.policy.paths import Reach
from treadle.tui.confirm import confirm
from treadle.tui.mentions import MENTIONS_MAX, Mention, mentions_of, shown_mention
from treadle.tui.pasted import PastedMentions

if TYPE_CHECKING:
    from treadle.tui.chat import Chat

LINES_MAX: Final = 8
"""Maximum number of mentions in one question. Further questions cover the rest."""


class _Judged(NamedTuple):
    mention: Mention
    ask: str = ""
    """Reason to ask the user; empty if there is none."""
    refused: str = ""


async def approved_mentions(chat: Chat, text: str) -> list[Mention]:
    """Return the mentions to attach, in order. Report those that are left out."""
    judged = await to_thread.run_sync(
        partial(_judged, text, chat.cwd, chat.runtime.reach(chat.cwd), chat.line.pasted)
    )
    if len(judged) > MENTIONS_MAX:
        chat.tell(
            f"{count(len(judged), 'file')} are mentioned, and at most {MENTIONS_MAX} are attached: "
            f"the others are only named.",
            "warning",
        )
        judged = judged[:MENTIONS_MAX]
    for each in judged:
        if each.refused:
            chat.tell(f"{each.refused}: it is only named, not attached.", "warning")
    asked = [each for each in judged if each.ask]
    declined = dict[Mention, None]()
    for at in range(0, len(asked), LINES_MAX):
        group = asked[at : at + LINES_MAX]
        if await _agreed(chat, group):
            for each in group:
                chat.line.pasted.confirm(each.mention.said)
        else:
            declined.update(dict.fromkeys(each.mention for each in group))
    if declined:
        names = ", ".join(map(shown_mention, declined))
        chat.tell(f"Only named, not attached: {names}")
    return [each.mention for each in judged if not each.refused and each.mention not in declined]


async def _agreed(chat: Chat, group: Sequence[_Judged]) -> bool:
    lines = [f"  {shown_mention(each.mention)}: {each.ask}" for each in group]
    return await confirm(
        chat.screen,
        "\n".join(["Attach these to your message? The model will see their contents.", *lines]),
        yes="Attach",
        no="Send the text only",
        danger=True,
        complete=True,
    )


# ---------------------------------------------------------------- judging, in a worker thread


def _judged(text: str, cwd: Path, reach: Reach, pasted: PastedMentions) -> list[_Judged]:
    return [_judge(mention, cwd, reach, pasted) for mention in mentions_of(text, cwd)]


def _judge(mention: Mention, cwd: Path, reach: Reach, pasted: PastedMentions) -> _Judged:
    """Judge a mention by the path as written, which rules refer to, and by its resolved target."""
    path = os.fspath(mention.path)
    finding = reach.read(path, names_only=os.path.isdir(path))
    try:
        place = Path(reach.places(path)[0])
    except (ValueError, OSError):
        return _Judged(mention, refused=f"@{revealed(mention.said)} is not a valid path")
    mention = mention._replace(path=place)
    if finding.kind is FindingKind.FORBIDDEN:
        return _Judged(mention, refused=finding.why)
    why = [] if finding.kind is FindingKind.READS else [finding.why]
    if pasted.has(mention.said):
        why.append("the text with it was pasted")
    if why and not place.is_relative_to(os.path.realpath(cwd)):
        why.append(f"it is {revealed(os.fspath(place))}")
    return _Judged(mention, ask="; ".join(why))
