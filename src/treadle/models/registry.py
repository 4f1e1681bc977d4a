"""Models by `provider:id`, with the credentials and connections of their providers.

Entry points: `Models`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from treadle.config import Config, Endpoint
from treadle.config.keys import STAND_INS
from treadle.config.model_profile import UNKNOWN, Abilities
from treadle.errors import AgentError, ErrorKind
from treadle.models.model import Model

if TYPE_CHECKING:
    from treadle.models.providers.batching.request_batch import BatchMember
    from treadle.models.providers.connection import Connection
    from treadle.models.providers.http import HttpConnection
    from treadle.models.providers.run_headers import RunHeaders


class Models:
    """Models by name, created on first use. All runs share one connection per provider."""

    def __init__(self, config: Config, *, clean: Callable[[str], str]) -> None:
        """Create a model registry. `clean` redacts secrets from recorded tapes."""
        self._config = config
        self._clean = clean
        self._connections: dict[str, HttpConnection] = {}
        self._retired: list[HttpConnection] = []
        self._made: dict[str, Model] = {}
        """Models of providers, by name."""
        self._playing: dict[tuple[str, str], Model] = {}
        """Scripts, tapes and recorders by name and scope, each with its position."""

    def get(
        self, name: str, *, scope: str, place: int = 0, headers: RunHeaders | None = None
    ) -> Model:
        """Return a model. Raises AgentError: `invalid` for an unknown name, `auth` without a key.

        `scope`: id of the session, or of the run if there is none. A script or tape continues where
        this scope left off, or starts at `place` if another process has used it. `headers`: those
        of the run.
        """
        provider, model_id = self._config.split(name)
        match provider:
            case "script" | "tape":
                key = (name, scope)
                if key not in self._playing:
                    self._playing[key] = _player(provider, Path(model_id), self._clean, place)
                return self._playing[key]
            case "record":
                return self._recorder(name, model_id, scope)
            case _:
                if headers is None or headers.provider != provider:
                    return self._from_provider(provider, name, model_id)
                return self._model(provider, model_id, headers)

    def is_local(self, name: str) -> bool:
        """Return True for a script, a tape or a recorder."""
        return self._config.split(name)[0] in STAND_INS

    def batched(
        self, name: str, member: BatchMember, headers: RunHeaders | None = None
    ) -> Model | None:
        """Return a provider's model whose requests go out in batches; None if the provider has no
        batch API.
        """
        if self.is_local(name):
            return None
        provider, model_id = self._config.split(name)
        from treadle.models.providers.batching.connection import BatchConnection, batch_api  # noqa: PLC0415  few runs are in a batch

        endpoint = self._config.endpoint(provider)
        make_api = batch_api(endpoint)
        if make_api is None:
            return None
        return self._model(
            provider,
            model_id,
            headers,
            lambda inner: BatchConnection(inner, make_api, endpoint, member),
        )

    def described(self, name: str) -> Model:
        """Return the model of a run that another process will execute. It needs no key.

        Raises AgentError(invalid) for an unknown name, or for `record:`.
        """
        provider, model_id = self._config.split(name)
        match provider:
            case "script" | "tape":
                return _player(provider, Path(model_id), self._clean, 0)
            case "record":
                reason = (
                    "requests of workers cannot be recorded: remove record:, or run it here "
                    "instead of submitting it"
                )
                raise AgentError("invalid", f"{name!r}: {reason}")
            case _:
                return self._keyless(provider, name, model_id)

    def _keyless(self, provider: str, name: str, model_id: str) -> Model:
        try:
            return self._from_provider(provider, name, model_id)
        except AgentError as e:
            if e.kind is not ErrorKind.AUTH:
                raise
        from treadle.models.providers.wires import connect_to, wire_of  # noqa: PLC0415  loaded on use

        endpoint = self._config.endpoint(provider, api_key="none-is-needed")
        return wire_of(endpoint.type).model_over(
            connect_to(endpoint), endpoint, model_id, abilities_of(self._config, endpoint, model_id)
        )

    def plays(self, name: str, *, scope: str) -> bool:
        """Return True for a script or tape that this scope has not used in this process."""
        return name.startswith(("script:", "tape:")) and (name, scope) not in self._playing

    def forget(self, scope: str) -> None:
        """Drop the scripts and tapes of a scope that has ended."""
        self._playing = {key: model for key, model in self._playing.items() if key[1] != scope}

    def use(self, config: Config) -> None:
        """Use the credentials of `config` from the next request on. Active requests keep their
        connections.
        """
        self._config = config
        self._retired += self._connections.values()
        self._connections, self._made = {}, {}

    async def aclose(self) -> None:
        for connection in (*self._connections.values(), *self._retired):
            await connection.aclose()
        self._connections, self._made, self._retired = {}, {}, []

    def _recorder(self, name: str, rest: str, scope: str) -> Model:
        from treadle.models.providers.tape import RecordingModel  # noqa: PLC0415  needed only for recording

        path, equals, model = rest.partition("=")
        if not equals or not path or not model:
            raise AgentError(
                "invalid",
                (
                    f"{name!r} does not say what to record: write record:FILE=MODEL, like "
                    "record:talk.tape=anthropic:claude-haiku-5-5"
                ),
            )
        key = (name, scope)
        if key not in self._playing:
            self._playing[key] = RecordingModel(
                self.get(model, scope=scope), Path(path), clean=self._clean
            )
        return self._playing[key]

    def _from_provider(self, provider: str, name: str, model_id: str) -> Model:
        if (made := self._made.get(name)) is None:
            made = self._made[name] = self._model(provider, model_id)
        return made

    def _model(
        self,
        provider: str,
        model_id: str,
        headers: RunHeaders | None = None,
        over: Callable[[Connection], Connection] = lambda inner: inner,
    ) -> Model:
        from treadle.models.providers.wires import connect_to, wire_of  # noqa: PLC0415  loaded on first use

        endpoint = self._config.endpoint(provider)
        wire = wire_of(endpoint.type)
        if endpoint.name not in self._connections:
            self._connections[endpoint.name] = connect_to(endpoint)
        connection = over(self._connections[endpoint.name])
        if headers is not None:
            from treadle.models.providers.run_headers import HeaderedConnection  # noqa: PLC0415  few runs have any

            connection = HeaderedConnection(connection, headers)
        return wire.model_over(
            connection, endpoint, model_id, abilities_of(self._config, endpoint, model_id)
        )


def abilities_of(
    config: Config, endpoint: Endpoint, model_id: str, heard: Mapping[str, Abilities] | None = None
) -> Abilities:
    """Return the abilities of a model. The user's configuration overrides data from the provider,
    which overrides the bundled data.

    `heard`: the provider's data by model id; None reads its cache, if the configuration has a home.
    """
    from treadle.models.providers.known_models import known  # noqa: PLC0415  scripts and tapes do not need it
    from treadle.models.providers.told_models import told  # noqa: PLC0415  as above

    if heard is None:
        heard = {} if config.home is None else told(config.home, endpoint)
    abilities = heard.get(model_id, UNKNOWN).over(known(endpoint.type, endpoint.base_url, model_id))
    configured = config.providers.get(endpoint.name)
    for pattern, said in (
        sorted(configured.abilities.items(), key=lambda item: len(item[0]))
        if configured is not None
        else ()
    ):
        if pattern.endswith("*") and model_id.startswith(pattern[:-1]):
            abilities = said.over(abilities)
    exact = configured.abilities.get(model_id, UNKNOWN) if configured is not None else UNKNOWN
    return exact.over(abilities)


def _player(kind: str, path: Path, clean: Callable[[str], str], place: int) -> Model:
    from treadle.models.providers.scripted import ScriptedModel  # noqa: PLC0415  needed only for replay
    from treadle.models.providers.tape import TapeModel  # noqa: PLC0415

    player = ScriptedModel.from_file(path) if kind == "script" else TapeModel(path, clean=clean)
    player.place = place
    return player
