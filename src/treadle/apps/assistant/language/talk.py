"""Replies without tool calls: help, greetings, thanks, and "nothing changed".

Entry points: `said_alone`, `regrets`, `HELP`.
"""

from __future__ import annotations

from treadle.apps.assistant.language.wishes import Say
from treadle.apps.assistant.language.wording import Keys, Phrases, known

HELP = Say(
    "help",
    'I keep your task list. You can say: "add buy milk tomorrow", "show my open tasks", "what\'s '
    'due this week", "find milk", "mark buy milk as done", "rename buy milk to buy bread", "set '
    'buy milk to high priority", "move buy milk to friday", "delete buy milk", "complete all", '
    '"clear completed" or "undo". I can\'t repeat tasks or send reminders.',
)


def _talk(text: str) -> Say:
    return Say("talk", text)


GREETING = _talk("Hello! What would you like to do with your tasks?")
_WELL = _talk("I'm well, thank you! What can I do for your task list?")
_WELCOME = _talk("You're welcome! Anything else for your list?")
_NAME = _talk(
    'I\'m the Treadle task assistant: I keep your task list. Say "help" to see what I understand.'
)
_BYE = _talk("Goodbye! Your tasks will be here.")
_FINE = _talk("All right. Tell me when there's something for your list.")
NOTHING_CHANGED = _talk("All right, I haven't changed anything.")
NOTHING_TO_CONFIRM = _talk("There's nothing to confirm right now.")
NO_REPEATING = _talk(
    'I can\'t repeat tasks or send reminders. I can keep one task with a day: say "add", what is '
    'to be done, and a day like "friday" or "tomorrow".'
)
NO_REMINDERS = "I can't send reminders, only keep tasks with a day."
_NO_SORTING = _talk(
    "I show tasks in the order in which you added them. You can narrow it: \"what's due this "
    'week", "show high priority tasks".'
)
NO_REOPENING = _talk(
    'I can\'t reopen a task by its name. If you have just completed it, say "undo".'
)

_HELLO = "hi|hello|hey|hiya|howdy|yo|greetings|hallo|heya|sup|morning|evening"
_COOL = "ok|okay|great|perfect|awesome|cool"
_IT = "it|that|this|them|all|everything"
_ALONE = Phrases(
    {
        f"{_HELLO} there|again|treadle|assistant|bot|you|everyone|all|{_HELLO}? / "
        f"{_HELLO}? good morning|afternoon|evening|day|night": GREETING,
        f"{_HELLO}? how are|r you|u|things doing|today|going? / "
        f"{_HELLO}? hows|how it|everything|life going?": _WELL,
        f"{_COOL}|no|many? thanks|thx|ty|cheers|thankyou|tysm|thnx a? lot|bunch|again|mate|man|bye? / "
        f"{_COOL}|no|many? thanks|thank you|u so|very? much|again|all? / "
        "youre|ur so|really|very|just? the|a|an? best|great|awesome|amazing|star|lifesaver|legend|angel|helpful|kind|good|brilliant": _WELCOME,
        f"{_HELLO}? who|what are|r you|u / "
        "are you a|an? human|bot|robot|ai|person|real|computer|machine|chatgpt|claude|llm?": _NAME,
        "bye|goodbye|cya|ciao|farewell / see you|ya later|soon|tomorrow|around?": _BYE,
        f"{_COOL}|k|kk|alright|fine|nice|good|sweet|super|excellent|wonderful|amazing|brilliant|right|lovely / "
        "sure|yep|yeah|yup|exactly|correct|indeed|hmm|hm|well|oh|ah|lol|lmao|haha|hahaha|hehe|omg|yay|woohoo|wow": _FINE,
        "no|nope|nah|nevermind|nvm|cancel|stop|abort|nothing|none|neither|forget / no|nah|nope? never mind / "
        f"forget|cancel|leave|ignore|skip|drop {_IT} / dont|do not / keep {_IT}": NOTHING_CHANGED,
        "yes|confirm|confirmed|y|ok|sure please|do|it|delete|sure|that? / "
        f"yes delete|complete|update please|{_IT}?": NOTHING_TO_CONFIRM,
        "sort|order|arrange|rank|group|rearrange my|the|all? tasks|list|todos|it|them? by? due|creation? date|priority|name|title|deadline|importance?": _NO_SORTING,
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
_OPENERS = known("ok okay hey hi hello please so well oh um no yes and thanks")
_SMALL = (HELP, _WELCOME, _NAME, _WELL, GREETING, _BYE, _FINE)
_WORDS = 16
"""Maximum number of words of small talk."""
_REGRETS = Phrases.plain(
    "oops|whoops|oopsie|ooops|woops|ups|oups|oopsies / thats|that|this|it was|is? wrong|incorrect|mistake / "
    "wrong one|task|thing|button? / i didnt|dont|never mean|meant|want that|this|it|to? do? that|this|it?"
)
_UNDOING = Phrases.plain("ctrl|cmd|control|command z")
_INTERJECTIONS = known(
    "oops whoops wait no sorry ah oh hold on damn argh ugh nope omg hmm crap please pls"
)
_AFTER = known("please pls today now then assistant treadle thanks buddy friend bot :)")


def regrets(keys: Keys, *, did: bool) -> bool:
    """Return True if the message takes back the last change; "oops" does so only right after one."""
    keys = keys[:20]
    while len(keys) > 1 and keys[0] in _INTERJECTIONS:
        keys = keys[1:]
    return _UNDOING.whole(keys) is not None or (did and _REGRETS.whole(keys) is not None)


def said_alone(keys: Keys) -> Say | None:
    """Return the reply to a message that is only small talk; None for any other. Of several phrases
    in sequence, such as "thanks, you're the best, bye", the most specific one counts.
    """
    keys = [key for key in keys if any(c.isalnum() or c in "?/" for c in key)] or keys[:1]
    if not keys or len(keys) > _WORDS:
        return None
    if keys[0] == "yes" and keys[2:3] == ["all"] and len(keys) == 4 and keys[3].isdigit():
        return NOTHING_TO_CONFIRM
    for start in range(min(3, len(keys))):
        if any(key not in _OPENERS for key in keys[:start]):
            break
        bare = keys[start:-1] if keys[-1] in _AFTER else []
        if (found := _ALONE.whole(keys[start:]) or _ALONE.whole(bare)) is not None:
            return _WELCOME if found is GREETING and start and keys[0] == "thanks" else found
    said: list[Say] = []
    place = 0
    while place < len(keys):
        row = _ALONE.at(keys, place)
        if row is None and keys[place] not in _OPENERS:
            return None
        said += [row[1]] if row is not None else []
        place += row[0] if row is not None else 1
    if any(one not in _SMALL for one in said):
        return None
    return next((one for one in _SMALL if one in said), None)
