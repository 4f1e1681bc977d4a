"""The wizard of the first start: four questions that lead to a working model, written only at the
end. Entry points: `is_first`, `first_start`.

The choices come from wizard_ways.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, TypeVar

import anyio

from treadle._internal.redaction import Redactor, Secret
from treadle.config import Config, Endpoint, home, load
from treadle.config.changing import change
from treadle.config.keys import KeyPath
from treadle.config.places import CONFIG_NAME
from treadle.errors import AgentError, ErrorKind
from treadle.models.providers.known_models import known_ids
from treadle.models.providers.listing import Listed
from treadle.runtime.model_catalog import CatalogModel as Known
from treadle.tui.blocks import NoticeBlock
from treadle.tui.confirm import EntrySlot
from treadle.tui.picker import Picker, PickerRow, SecretText
from treadle.tui.pickers.models import model_row
from treadle.tui.screen import Screen
from treadle.tui.wizard_ways import (
    LOCAL,
    LOCAL_WITHIN_S,
    VENDORS,
    Local,
    VendorKey,
    VendorWay,
    asked,
    endpoint_at,
    endpoint_of,
    keys_in,
    looks_like_key,
    pasted,
    vendor_of,
)
from treadle.types import Mode

if TYPE_CHECKING:
    from treadle.config.document import Plain

T = TypeVar("T")
Way: TypeAlias = "VendorKey | Secret | Literal['paste', 'local', 'demo']"
MODES: Final[tuple[tuple[Mode, str], ...]] = (
    ("ask", "reads; asks before it changes files or runs commands"),
    ("accept-edits", "changes files in this folder; asks before commands"),
    ("plan", "only reads and plans"),
)
BY_HAND: Final = (
    "Nothing was written. To do it by hand: set ANTHROPIC_API_KEY in the environment (or "
    "OPENAI_API_KEY, GEMINI_API_KEY),\n"
    "or `treadle config set providers.anthropic.api_key -`; the model is models.large. Without a "
    "key: `treadle demo`."
)


class _Reached(NamedTuple):
    """Endpoint of a model, with the settings to write and its models."""

    endpoint: Endpoint
    values: list[tuple[KeyPath, Plain]]
    models: Sequence[Listed]


def is_first(config: Config) -> bool:
    """Return True if there is no configuration of the user: no file, no chosen model, and no key
    for the default one.
    """
    if config.origin("models", "large").source != "default" or any(
        setting.origin.source == "file" for setting in config.settings.values()
    ):
        return False
    try:
        config.endpoint(config.models.large.partition(":")[0])
    except AgentError as e:
        return e.kind is ErrorKind.AUTH
    return False


async def first_start(
    screen: Screen,
    config: Config,
    *,
    environ: Mapping[str, str] | None = None,
    reload: Callable[[], Config] = load,
    local: Sequence[Local] = LOCAL,
) -> Config | Literal["demo"] | None:
    """Ask, write the user's own file, and return the new configuration from `reload`.

    Returns None if the user left and "demo" if they chose the demo; then nothing was written. Sends
    no network request without the user's consent. Raises AgentError if the file cannot be written.
    """
    return await _Wizard(screen, config, os.environ if environ is None else environ, local).run(
        reload
    )


class _Wizard:
    def __init__(
        self, screen: Screen, config: Config, environ: Mapping[str, str], local: Sequence[Local]
    ) -> None:
        self._screen, self._config, self._environ, self._local = screen, config, environ, local
        self._secrets = set(config.secrets())

    async def run(self, reload: Callable[[], Config]) -> Config | Literal["demo"] | None:
        values = await self._asked()
        if values == "demo":
            return "demo"
        if values is None:
            self._tell(BY_HAND)
            return None
        file = Path(self._config.home or home(self._environ)) / CONFIG_NAME
        change(file, values)
        self._tell(
            "\n".join(
                [
                    f"Written to {file}, readable only by you:",
                    *(f"  {_line(path, value)}" for path, value in values),
                ]
            )
        )
        return reload()

    async def _asked(self) -> list[tuple[KeyPath, Plain]] | Literal["demo"] | None:
        """Return the settings to write, or None if the user left."""
        while (way := await self._way()) is not None:
            if way == "demo":
                return "demo"
            try:
                reached = await self._reached(way)
            except AgentError as e:
                self._tell(f"{e.message}\nChoose again, or choose another way.", "warning")
                continue
            return None if reached is None else await self._chosen(reached)
        return None

    async def _way(self) -> Way | None:
        found = [
            PickerRow[Way](
                f"Use the key in {key.variable}", key, f"{key.vendor.label}, {key.secret}"
            )
            for key in keys_in(self._environ)
        ]
        rows = [
            *found,
            PickerRow[Way](
                "Paste a key", "paste", "of Anthropic, OpenAI, Google, OpenRouter and others"
            ),
            PickerRow[Way](
                "A server on this machine",
                "local",
                "Ollama, llama.cpp, LM Studio, vLLM: checks which of them respond",
            ),
            PickerRow[Way]("See it work without a key", "demo", "runs treadle demo now"),
        ]
        return await self._pick(
            "No model is set up yet. Which one do you want to use?",
            rows,
            takes=lambda text: PickerRow[Way](
                "Use this key", Secret(text), "it is not shown; Enter uses it"
            ),
        )

    async def _reached(self, way: Way) -> _Reached | None:
        if way == "local":
            return await self._on_this_machine()
        if isinstance(way, Secret):
            key = await self._with_vendor(way.reveal())
        else:
            key = await self._pasted() if way == "paste" else way
        if not isinstance(key, VendorKey):
            return None
        self._secrets.add(key.secret.reveal())
        endpoint = endpoint_of(key, self._config)
        host = (endpoint.base_url or f"https://{key.vendor.label}").split("/")[2]
        rows = [
            PickerRow("Check it now", True, f"one request to {host}, for its list of models"),
            PickerRow("Do not check", False, "nothing is sent before your first message"),
        ]
        check = await self._pick(f"Check the key? {key.vendor.label}", rows)
        if check is None:
            return None
        models = (
            await asked(endpoint)
            if check
            else [Listed(id=model_id) for model_id in known_ids(endpoint.type, endpoint.base_url)]
        )
        return _Reached(endpoint, _of_provider(key), models)

    async def _pasted(self) -> VendorKey | None:
        """Ask for a key, and for its vendor if the key does not identify it. Raises
        AgentError(invalid) for an invalid key.
        """
        text = await self._screen.ask(
            EntrySlot(self._screen, "Paste the key; it is not shown", masked=True)
        )
        return None if text is None else await self._with_vendor(text)

    async def _with_vendor(self, text: str) -> VendorKey | None:
        """Determine the vendor of a key. Raises AgentError(invalid) for an invalid key."""
        key = pasted(VENDORS[0], text)
        self._secrets.add(key.secret.reveal())
        rows = [PickerRow[VendorWay](vendor.label, vendor) for vendor in VENDORS]
        vendor = vendor_of(key.secret.reveal()) or await self._pick(
            "Which provider is this key for?", rows
        )
        return None if vendor is None else key._replace(vendor=vendor)

    async def _on_this_machine(self) -> _Reached | None:
        """Choose a local server. Raises AgentError(network) if none responds."""
        answers: dict[Local, list[Listed]] = {}

        async def ask(server: Local) -> None:
            try:
                answers[server] = await asked(endpoint_at(server), within_s=LOCAL_WITHIN_S)
            except AgentError:  # no server there, or another program
                return

        async with anyio.create_task_group() as group:
            for server in self._local:
                group.start_soon(ask, server)
        there = [(server, answers[server]) for server in self._local if answers.get(server)]
        if not there:
            tried = ", ".join(
                f"{server.label} ({server.address.split('/')[2]})" for server in self._local
            )
            raise AgentError(
                "network",
                f"No server with a model responds on this machine. Tried: {tried}. Start one "
                "first.",
            )
        rows = [
            PickerRow(
                server.label,
                server,
                f"{server.address}, {len(models)} model{'' if len(models) == 1 else 's'}",
            )
            for server, models in there
        ]
        chosen = rows[0].value if len(rows) == 1 else await self._pick("Which server?", rows)
        if chosen is None:
            return None
        values: list[tuple[KeyPath, Plain]] = [
            (("providers", chosen.name, "type"), "openai-chat"),
            (("providers", chosen.name, "base_url"), chosen.address),
        ]
        return _Reached(endpoint_at(chosen), values, answers[chosen])

    async def _chosen(self, reached: _Reached) -> list[tuple[KeyPath, Plain]] | None:
        """Return the settings with the model and the mode that the user chose."""
        model = await self._model(reached)
        mode = (
            None
            if model is None
            else await self._pick(
                "What may it do without approval? Shift-Tab changes it at any time",
                [PickerRow[Mode](m, m, about) for m, about in MODES],
            )
        )
        if model is None or mode is None:
            return None
        small = self._config.models.small
        if small.partition(":")[0] != reached.endpoint.name:
            small = model
        return [
            *reached.values,
            (("models", "large"), model),
            (("models", "small"), small),
            (("defaults", "mode"), mode),
        ]

    async def _model(self, reached: _Reached) -> str | None:
        name, default = reached.endpoint.name, self._config.models.large
        rows = [
            model_row(
                Known(f"{name}:{model.id}", model.abilities, model.input_usd, model.output_usd)
            )
            for model in reached.models
        ]
        if rows:
            return await self._pick(
                "Which model?", sorted(rows, key=lambda row: row.value != default)
            )
        typed = await self._screen.ask(EntrySlot(self._screen, f"Name of the model at {name}"))
        return None if typed is None else f"{name}:{typed.removeprefix(f'{name}:')}"

    async def _pick(
        self,
        title: str,
        rows: Sequence[PickerRow[T]],
        *,
        takes: Callable[[str], PickerRow[T]] | None = None,
    ) -> T | None:
        """Ask a question and return the answer. A key typed or pasted at any question is masked."""
        return await self._screen.ask(
            Picker(self._screen, title, rows, secret=SecretText(looks_like_key, takes))
        )

    def _tell(self, text: str, style: str = "dim") -> None:
        self._screen.print(NoticeBlock(Redactor(self._secrets).text(text), style))


def _of_provider(key: VendorKey) -> list[tuple[KeyPath, Plain]]:
    """Return the settings to write for a provider."""
    if not key.is_written:
        return []
    return [(("providers", key.vendor.name, "api_key"), key.secret.reveal())]


def _line(path: KeyPath, value: Plain) -> str:
    return f"{'.'.join(path)}: {Secret(str(value)) if path[-1] == 'api_key' else value}"
