"""Mask for personal data that has a recognizable form. Entry point: `PersonalData`.

Telephone numbers are found by phonenumbers (extra `personal-data`), the rest by its structure.
Names, addresses and dates of birth have none, and are not recognized.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final, Literal

from anyio import to_thread
from typing_extensions import override

from treadle.errors import AgentError
from treadle.events.hooks.hook import Hook, HookedRun
from treadle.messages.message import Message, ToolCall, ToolResult
from treadle.models.model import ModelRequest, ModelResponse

if TYPE_CHECKING:
    from phonenumbers import PhoneNumberMatcher

PersonalKind = Literal["iban", "card", "email", "phone"]

INSTALL: Final = "pip install 'treadle[personal-data]'"
_LONG: Final = 10_000
"""Characters from which on a text is searched in a thread. 95 kB take 0.14 to 0.4 s (measured)."""
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?:[ ]?[A-Z0-9]){11,30}\b", re.IGNORECASE)
_CARD = re.compile(r"(?<![\d.+])[2-6](?:[ -]?\d){12,18}(?!\d)")
_PLUS = re.compile("[+\uff0b]")
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,63}")


class PersonalData(Hook):
    """Replace telephone numbers, e-mail addresses, IBANs and card numbers with placeholders like
    `[email address]` in messages of users, in texts of the model and in results of tools, before
    they are recorded.
    """

    def __init__(
        self,
        kinds: Collection[PersonalKind] = ("iban", "card", "email", "phone"),
        *,
        region: str | None = None,
    ) -> None:
        """Create a mask.

        `kinds`: kinds to replace. `region`: country of telephone numbers without a country code,
        like "DE"; None: only numbers that begin with `+` are recognized. Raises
        AgentError(invalid) for an unknown kind or region, and if a library is missing.
        """
        if strange := [kind for kind in kinds if kind != "phone" and kind not in _MASKS]:
            known = "a list of 'iban', 'card', 'email' and 'phone'"
            raise AgentError("invalid", f"PersonalData({strange[0]!r}): pass {known}")
        self._masks = [mask for kind, mask in _MASKS.items() if kind in kinds]
        self._region = region
        self._find = _phone_finder(region) if "phone" in kinds else None

    @override
    async def before_input(self, run: HookedRun, message: Message) -> str | None:
        """Replace personal data in the message."""
        return await self._changed(message.text)

    @override
    async def after_model(
        self, run: HookedRun, request: ModelRequest, response: ModelResponse
    ) -> str | None:
        """Replace personal data in the text of the response."""
        return await self._changed(response.text)

    @override
    async def after_tool(self, run: HookedRun, call: ToolCall, result: ToolResult) -> str | None:
        """Replace personal data in the text of the result."""
        return await self._changed(result.text)

    async def _changed(self, text: str) -> str | None:
        masked = (
            self.masked(text) if len(text) < _LONG else await to_thread.run_sync(self.masked, text)
        )
        return None if masked == text else masked

    def masked(self, text: str) -> str:
        """Return the text with placeholders."""
        for mask in self._masks:
            text = mask(text)
        if self._find is None or (self._region is None and not _PLUS.search(text)):
            return text
        pieces: list[str] = []
        done = 0
        for match in self._find(text, self._region):
            pieces += [text[done : match.start], "[phone number]"]
            done = match.end
        return "".join([*pieces, text[done:]])


def _phone_finder(region: str | None) -> type[PhoneNumberMatcher]:
    """Return the matcher of telephone numbers. Raises AgentError(invalid) if the library is
    missing, or does not know the region.
    """
    try:
        import phonenumbers  # noqa: PLC0415  80 ms; only this mask needs it
    except ImportError as e:
        text = f"PersonalData finds telephone numbers with phonenumbers: {INSTALL}"
        raise AgentError("invalid", f"{text}, or pass the other kinds only") from e
    if region is not None and region not in phonenumbers.SUPPORTED_REGIONS:
        raise AgentError(
            "invalid", f"PersonalData(region={region!r}): pass a country, like 'DE' or 'US'"
        )
    return phonenumbers.PhoneNumberMatcher


def _mask_ibans(text: str) -> str:
    return _IBAN.sub(_mask_iban, text)


def _mask_iban(match: re.Match[str]) -> str:
    """Replace the longest run of whole groups that is an IBAN; words may follow it."""
    text = match.group()
    ends = [len(text), *(m.start() for m in reversed([*re.finditer(" ", text)]))]
    for end in ends:
        digits = text[:end].replace(" ", "")
        if len(digits) >= 15 and _is_iban(digits):
            return f"[IBAN]{text[end:]}"
    return text


def _is_iban(iban: str) -> bool:
    """Return True if the check digits are right (ISO 13616: mod 97 is 1)."""
    return int("".join(str(int(char, 36)) for char in iban[4:] + iban[:4])) % 97 == 1


def _mask_cards(text: str) -> str:
    return _CARD.sub(lambda match: "[card number]" if _is_card(match[0]) else match[0], text)


def _is_card(text: str) -> bool:
    """Return True if the check digit is right (ISO/IEC 7812: Luhn)."""
    digits = [int(char) for char in text if char.isdecimal()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _mask_emails(text: str) -> str:
    return _EMAIL.sub("[email address]", text)


_MASKS: Mapping[str, Callable[[str], str]] = {
    "iban": _mask_ibans,
    "card": _mask_cards,
    "email": _mask_emails,
}
