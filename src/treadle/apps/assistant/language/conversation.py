"""References of a conversation, parsed from its text, and small talk.

docs/tasks.md lists the fixed replies. No other state of a conversation is kept. Entry points:
`Dialogue`, `said_alone`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import Literal, TypeAlias

import msgspec

from treadle.apps.assistant.language.wishes import Say
from treadle.apps.assistant.language.wording import Keys, Phrases, known

Speech: TypeAlias = tuple[Literal["user", "assistant"], str]

_ROW = re.compile(r"\s{0,4}(\d{1,4})[.)]\s+[☐✓☑✔✅□▢]\s*(.*)")
_DETAILS = re.compile(
    r"\s+(?:\((?:High|Medium|Low|due|overdue|no due)[^()]{0,120}\)\s*"
    r"|[—\u2013·|-]\s+(?:High|Medium|Low|due|overdue)\b[^—\u2013|]{0,80})$",
    re.IGNORECASE,
)
_SPOKEN = re.compile(
    r"(?s:Got it! Added '(.*)' to your list|I've marked '(.*)' as complete|Updated! '(.*)' now has"
    r"|I've removed '(.*)' from your tasks|Do you really want to delete '(.*)'\?)"
)
_DID = re.compile(r"(?m)^(?:Got it! Added|Great! I've marked|I've removed|Updated!)")
_QUESTIONS = re.compile(
    r"(?s:I found multiple tasks about '(?P<which>.*)'\. Which one: (?P<options>.*)\?"
    r"|I couldn't find a task about '(?P<not_found>.*)' in your list"
    r"|Could you provide more details about (?P<unclear>.*)\?)"
)
_BETWEEN = re.compile(
    r"['\"”\u2019]\s*(?:,\s*(?:or\s+|and\s+)?|\s+or\s+|\n)\s*(?:\(?\d{1,3}[.):]\s*)?['\"“\u2018]"
)
_READ = 60
"""Maximum number of messages to look back at."""


class Dialogue(msgspec.Struct):
    """State of the conversation before the current message."""

    today: date = date.min
    listed: tuple[str, ...] = ()
    """Titles of the last list."""
    last: str = ""
    """Title that was mentioned last."""
    recent: tuple[str, ...] = ()
    """Titles of the last reply."""
    fresh: Literal["", "list", "task"] = ""
    """Subject of the reply directly before the message."""
    did: bool = False
    """True if the reply directly before the message reported a change."""
    options: tuple[str, ...] = ()
    asked: str = ""
    """Kind of question that the last reply asked: which, not_found, unclear or none."""
    about: str = ""
    """Subject of the question."""
    before: str = ""
    """Message of the person that the question answered."""
    earlier: tuple[Speech, ...] = ()
    """Conversation before that message."""

    @classmethod
    def of(cls, said: Sequence[Speech], today: date = date.min) -> Dialogue:
        conversation = cls(today)
        for i, (role, text) in enumerate(said[-_READ:], max(0, len(said) - _READ)):
            if role == "user":
                conversation.before, conversation.earlier = text[:10_000], tuple(said[:i])
                conversation.asked = ""
            else:
                conversation._hear(text[:20_000])
        return conversation

    def _hear(self, text: str) -> None:
        self.asked, self.about, self.options, self.fresh = "", "", (), ""
        rows = rows_of(text)
        named = rows if len(rows) == 1 else []
        if rows:
            self.fresh, self.listed = "list", tuple(rows)
        for line in text.split("\n"):
            if (found := _SPOKEN.search(line)) is not None:
                named = [*named, *(title for title in found.groups() if title is not None)]
        if named:
            self.recent, self.last, self.fresh = tuple(named), named[-1], self.fresh or "task"
        self.did = _DID.search(text) is not None
        if (question := _QUESTIONS.search(text)) is not None:
            kinds = ("which", "not_found", "unclear")
            self.asked = next(kind for kind in kinds if question[kind] is not None)
            self.about, self.options = question[self.asked], _options(question["options"] or "")


def rows_of(text: str) -> list[str]:
    return [_bare(row[2]) for line in text.split("\n") if (row := _ROW.match(line)) is not None]


def _bare(title: str) -> str:
    """Return a title without the details after it in a list, and without the mark of truncation."""
    return _DETAILS.sub("", title).strip().removesuffix("…").rstrip() or title.strip()


def _options(text: str) -> tuple[str, ...]:
    rows = rows_of(text) or [piece for line in text.split("\n") for piece in _BETWEEN.split(line)]
    bare = (_bare(row.strip().strip("'\"“”\u2018\u2019 ")) for row in rows[:20])
    return tuple(option[:300] for option in bare if option)


# ---------------------------------------------------------------- small talk

HELP = Say(
    'I keep your task list. You can say: "add buy milk tomorrow", "show my open tasks", "what\'s '
    'due this week", "find milk", "mark buy milk as done", "rename buy milk to buy bread", "set '
    'buy milk to high priority", "move buy milk to friday", "delete buy milk", "complete all", '
    '"clear completed" or "undo". I can\'t repeat tasks or send reminders.',
)


_GREETING = Say("Hello! What would you like to do with your tasks?")
_WELCOME = Say("You're welcome! Anything else for your list?")
_FINE = Say("All right. Tell me when there's something for your list.")
NOTHING_CHANGED = Say("All right, I haven't changed anything.")
NOTHING_TO_CONFIRM = Say("There's nothing to confirm right now.")
NO_REPEATING = Say(
    'I can\'t repeat tasks or send reminders. I can keep one task with a day: say "add", what is '
    'to be done, and a day like "friday" or "tomorrow".'
)
NO_REMINDERS = "I can't send reminders, only keep tasks with a day."
_NO_SORTING = Say(
    "I show tasks in the order in which you added them. You can narrow it: \"what's due this "
    'week", "show high priority tasks".'
)
NO_REOPENING = Say('I can\'t reopen a task by its name. If you have just completed it, say "undo".')

_HELLO = "hi|hello|hey|hiya|howdy|yo|greetings|hallo|heya|sup|morning|evening"
_COOL = "ok|okay|great|perfect|awesome|cool"
_IT = "it|that|this|them|all|everything"
_ALONE = Phrases(
    {
        f"{_HELLO} there|again|treadle|assistant|bot|you|everyone|all|{_HELLO}? / "
        f"{_HELLO}? good morning|afternoon|evening|day|night / "
        f"{_HELLO}? how are|r you|u|things doing|today|going? / "
        f"{_HELLO}? hows|how it|everything|life going?": _GREETING,
        f"{_COOL}|no|many? thanks|thx|ty|cheers|thankyou|tysm|thnx a? lot|bunch|again|mate|man|bye? / "
        f"{_COOL}|no|many? thanks|thank you|u so|very? much|again|all? / "
        "youre|ur so|really|very|just? the|a|an? best|great|awesome|amazing|star|lifesaver|legend|angel|helpful|kind|good|brilliant": _WELCOME,
        "bye|goodbye|cya|ciao|farewell / see you|ya later|soon|tomorrow|around? / "
        f"{_COOL}|k|kk|alright|fine|nice|good|sweet|super|excellent|wonderful|amazing|brilliant|right|lovely / "
        "sure|yep|yeah|yup|exactly|correct|indeed|hmm|hm|well|oh|ah|lol|lmao|haha|hahaha|hehe|omg|yay|woohoo|wow": _FINE,
        "no|nope|nah|nevermind|nvm|cancel|stop|abort|nothing|none|neither|forget / no|nah|nope? never mind / "
        f"forget|cancel|leave|ignore|skip|drop {_IT} / dont|do not / keep {_IT}": NOTHING_CHANGED,
        "yes|confirm|confirmed|y|ok|sure please|do|it|delete|sure|that? / "
        f"yes delete|complete|update please|{_IT}?": NOTHING_TO_CONFIRM,
        "sort|order|arrange|rank|group|rearrange my|the|all? tasks|list|todos|it|them? by? due|creation? date|priority|name|title|deadline|importance?": _NO_SORTING,
        f"{_HELLO}? who|what are|r you|u / "
        "are you a|an? human|bot|robot|ai|person|real|computer|machine|chatgpt|claude|llm? / "
        "help|commands|usage|instructions|manual|info|options|halp|hlep|/help|--help|-h / help me out|understand|please|here? / "
        "i dont|do not? know|understand|get how to|this|it|does? use|work|do? this|it|you|that|works? / "
        "can|could|would|will you please? explain|show|teach|tell me|us? this|it|yourself|how|more? it|this|you? works|work? / "
        "can|could you help me|us|out? / what|which commands are there|available / "
        "what|which can|do|could|are you do|understand|know|offer|support|capable|able|for|help of|to|me|with|do? do|with? / "
        "what can|should i do|say|ask|type|use here|you|with|now? you|this|it? / "
        "how does|do|can this|it|i|you|that|everything work|use|start|help|begin you|this|it|me|the? app|assistant|bot? / "
        "how do i add|create|delete|remove|complete|rename|update|undo|list|search|edit|change a|my|tasks? task|tasks|it|list?": HELP,
    }
)
_RANKED = (HELP, _NO_SORTING, NOTHING_CHANGED, NOTHING_TO_CONFIRM, _WELCOME, _GREETING, _FINE)
"""Replies, the most specific first."""
_FILLING = known(
    "ok okay hey hi hello please so well oh um no yes and thanks "
    "pls today now then assistant treadle buddy friend bot :)"
)


def said_alone(keys: Keys) -> Say | None:
    """Return the reply to small talk, the most specific one to "thanks, you're the best, bye"."""
    keys = [key for key in keys if any(c.isalnum() or c in "?/" for c in key)] or keys[:1]
    if keys[:1] == ["yes"] and keys[2:3] == ["all"] and len(keys) == 4 and keys[3].isdigit():
        return NOTHING_TO_CONFIRM
    said: list[Say] = []
    place = 0
    while place < len(keys):
        row = _ALONE.at(keys, place)
        if row is None and keys[place] not in _FILLING:
            return None
        said += [row[1]] if row is not None else []
        place += row[0] if row is not None else 1
    return min(said, key=_RANKED.index, default=None)
