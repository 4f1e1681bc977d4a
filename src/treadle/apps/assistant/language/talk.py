"""Replies without tool calls: help, greetings, thanks, and "nothing changed".

Entry points: `said_alone`, `HELP`.
"""

from __future__ import annotations

from treadle.apps.assistant.language.phrases import Phrases, known
from treadle.apps.assistant.language.wishes import Say

HELP = Say(
    "help",
    'I keep your task list. You can say: "add buy milk tomorrow", "show my open tasks", "what\'s '
    'due this week", "find milk", "mark buy milk as done", "rename buy milk to buy bread", "set '
    'buy milk to high priority", "move buy milk to friday", "delete buy milk", "complete all", '
    '"clear completed" or "undo". I can\'t repeat tasks or send reminders.',
)
GREETING = Say("talk", "Hello! What would you like to do with your tasks?")
_WELL = Say("talk", "I'm well, thank you! What can I do for your task list?")
_WELCOME = Say("talk", "You're welcome! Anything else for your list?")
_NAME = Say(
    "talk",
    'I\'m the Treadle task assistant: I keep your task list. Say "help" to see what I understand.',
)
_BYE = Say("talk", "Goodbye! Your tasks will be here.")
_FINE = Say("talk", "All right. Tell me when there's something for your list.")
NOTHING_CHANGED = Say("talk", "All right, I haven't changed anything.")
NOTHING_TO_CONFIRM = Say("talk", "There's nothing to confirm right now.")
NO_REPEATING = Say(
    "talk",
    (
        'I can\'t repeat tasks or send reminders. I can keep one task with a day: say "add", '
        "what is "
        'to be done, and a day like "friday" or "tomorrow".'
    ),
)
NO_REMINDERS = "I can't send reminders, only keep tasks with a day."
_NO_SORTING = Say(
    "talk",
    (
        "I show tasks in the order in which you added them. You can narrow it: \"what's due this "
        'week", "show high priority tasks".'
    ),
)
NO_REOPENING = Say(
    "talk", 'I can\'t reopen a task by its name. If you have just completed it, say "undo".'
)

_HELLO = "hi|hello|hey|hiya|howdy|yo|greetings|hallo|heya|sup|morning|evening|helo|hullo"
_PRAISE = (
    "so|really|very|just? the|a|an? "
    "best|great|awesome|amazing|star|lifesaver|legend|angel|helpful|kind|good|brilliant|wonderful|cool"
)
_ALONE = Phrases(
    {
        _HELLO: GREETING,
        f"{_HELLO} there|again|treadle|assistant|bot|you|everyone|all|{_HELLO}": GREETING,
        f"{_HELLO}? good morning|afternoon|evening|day|night": GREETING,
        f"{_HELLO}? how are|r you|u|things doing|today|going?": _WELL,
        f"{_HELLO}? hows|how it|everything|life going?": _WELL,
        "ok|okay|great|perfect|no|awesome|cool? thanks|thx|ty|cheers|thankyou|tysm|thnx|thks|tahnks|thansk a? lot|bunch|again|mate|man|bye?": _WELCOME,
        "ok|okay|great|perfect|no|awesome|cool|many? thanks|thank you|u so|very? much|again|all?": _WELCOME,
        "many thanks": _WELCOME,
        f"{_HELLO}? who|what are|r you|u": _NAME,
        "are you a|an? human|bot|robot|ai|person|real|computer|machine|chatgpt|claude|llm?": _NAME,
        "bye|goodbye|cya|ciao|farewell": _BYE,
        "see you|ya later|soon|tomorrow|around?": _BYE,
        "ok|okay|k|alright|fine|great|cool|nice|awesome|perfect|good|wow|lol|haha|sweet|super|excellent|wonderful|amazing|brilliant|right|lovely": _FINE,
        "sure|yep|yeah|yup|exactly|correct|indeed|hmm|hm|well|oh|ah": _FINE,
        f"youre|ur {_PRAISE}": _WELCOME,
        "lol|lmao|rofl|haha|hahaha|hehe|ha|omg|yay|woohoo|hooray|wow|nice|ok|okay|k|kk|okie|okey": _FINE,
        "no|nope|nah|nevermind|nvm|cancel|stop|abort|nothing|none|neither|forget": NOTHING_CHANGED,
        "never mind|midn": NOTHING_CHANGED,
        "no|nah|nope never mind": NOTHING_CHANGED,
        "forget|cancel|leave|ignore|skip|drop it|that|this": NOTHING_CHANGED,
        "dont|do not": NOTHING_CHANGED,
        "keep it|them|that|all|everything": NOTHING_CHANGED,
        "yes|confirm|confirmed|y|ok|sure please|do|it|delete|sure|that?": NOTHING_TO_CONFIRM,
        "yes delete|complete|update it|that|them|all|please|everything?": NOTHING_TO_CONFIRM,
        "sort|order|arrange|rank|group my|the|all? tasks|list|todos|it|them? by due|creation? date|priority|name|title|deadline|importance": _NO_SORTING,
        "sort|rearrange my|the|all? tasks|list|todos|it|them?": _NO_SORTING,
        "help|commands|usage|instructions|manual|info|options|halp|hlep|hepl|/help|--help|-h": HELP,
        "help me out|understand|please|here?": HELP,
        "i dont|do not? know|understand|get how to|this|it|does? use|work|do? this|it|you|that|works?": HELP,
        "can|could|would|will you please? explain|show|teach|tell me|us? this|it|yourself|how|more? it|this|you? works|work?": HELP,
        "can|could you help me|us|out?": HELP,
        "what|which can|do|could|are you do|understand|know|offer|support|capable|able|for|help of|to|me|with|do? do|with?": HELP,
        "what|which commands are there|available": HELP,
        "what can|should i do|say|ask|type|use here|you|with|now? you|this|it?": HELP,
        "how does|do|can this|it|i|you|that|everything work|use|start|help|begin you|this|it|me|the? app|assistant|bot?": HELP,
        "how do i add|create|delete|remove|complete|rename|update|undo|list|search|edit|change a|my|tasks? task|tasks|it|list?": HELP,
    }
)
_CONFIRMED = known("delete complete update")
_OPENERS = known("""ok okay hey hi hello please so well oh um no yes and thanks""")
_SMALL = (GREETING, _WELL, _WELCOME, _NAME, _BYE, _FINE)
_WORDS = 16
"""Maximum number of words of small talk."""


def said_alone(keys: list[str]) -> Say | None:
    """Return the reply to a message that is only small talk; None for any other."""
    keys = [key for key in keys if any(c.isalnum() or c in "?/" for c in key)] or keys[:1]
    if not keys or len(keys) > _WORDS:
        return None
    if (
        len(keys) == 4
        and keys[0] == "yes"
        and keys[1] in _CONFIRMED
        and keys[2] == "all"
        and keys[3].isdigit()
    ):
        return NOTHING_TO_CONFIRM
    return _whole(keys) or _tiled(keys)


def _tiled(keys: list[str]) -> Say | None:
    """Return the reply to several phrases in sequence, such as "thanks, you're the best, bye": that
    to the most specific one.
    """
    said: list[Say] = []
    place = 0
    while place < len(keys):
        found = _ALONE.at(keys, place)
        if found is None:
            if keys[place] not in _OPENERS:
                return None
            place += 1
            continue
        said.append(found[1])
        place += found[0]
    for kind in (HELP, _WELCOME, _NAME, _WELL, GREETING, _BYE, _FINE):
        if kind in said and all(one in _SMALL or one is HELP for one in said):
            return kind
    return None


def _whole(keys: list[str]) -> Say | None:
    for start in range(min(3, len(keys))):
        if any(key not in _OPENERS for key in keys[:start]):
            return None
        for end in (len(keys), len(keys) - 1):
            if end > start and (
                end == len(keys)
                or keys[-1]
                in (
                    "please",
                    "pls",
                    "today",
                    "now",
                    "then",
                    "assistant",
                    "treadle",
                    "thanks",
                    "buddy",
                    "friend",
                    "bot",
                    ":)",
                )
            ):
                found = _ALONE.whole(keys[start:end])
                if found is not None:
                    return (
                        _WELCOME if found is GREETING and start and keys[0] == "thanks" else found
                    )
    return None
