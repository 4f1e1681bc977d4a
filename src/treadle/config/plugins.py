"""Plug-ins: entry points of installed distributions, found and imported when a name needs them.

Built-in names always win, so a lookup happens only for a name that is not built in. Only
distributions in the interpreter's own site-packages count: neither the working directory nor
PYTHONPATH can introduce one. Entry points: `find`, `load_plugin`, `installed`.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, cast, get_args

from treadle._internal.terminal_text import one_line
from treadle.errors import AgentError

if TYPE_CHECKING:
    from importlib.metadata import Distribution

PluginKind: TypeAlias = Literal[
    "models", "tools", "journals", "engines", "sandboxes", "commands", "agents"
]
KINDS: Final[tuple[PluginKind, ...]] = get_args(PluginKind)
LOAD_S: Final = 30.0
"""Seconds within which a plug-in must be imported."""
TEXT_MOST: Final = 300
"""Maximum length of an error's text, in characters."""
_REMEDY: Final = "Update the package, or uninstall it"


class Plugin(NamedTuple):
    """An entry point, with the distribution that declares it."""

    kind: PluginKind
    name: str
    value: str
    """Module and attribute, as `module:attribute`."""
    package: str
    version: str
    problem: str = ""
    """Reason why the entry points of the distribution cannot be read; then it has no name."""

    @property
    def distribution(self) -> str:
        return one_line(f"{self.package} {self.version}")

    def __str__(self) -> str:
        what = (
            f"the plug-in {self.name!r} (treadle.{self.kind}, {self.value})"
            if self.name
            else "entry_points.txt"
        )
        return one_line(f"{what} of {self.package} {self.version}", TEXT_MOST)


class LoadedPlugin(NamedTuple):
    plugin: Plugin
    value: object

    def having(self, *attributes: str) -> object:
        """Return the value. Raises AgentError(invalid) if it lacks one of the attributes."""
        if missing := sorted(name for name in attributes if not hasattr(self.value, name)):
            raise AgentError(
                "invalid",
                f"{self.plugin} is a {type(self.value).__name__} without {', '.join(missing)}",
            )
        return self.value

    def must_be_named(self, name: str) -> None:
        """Raise AgentError(invalid) if its value has another name, by which runs would miss it."""
        if name != self.plugin.name:
            raise AgentError("invalid", f"{self.plugin} is named {name!r}: the names must be equal")

    def called(self, *arguments: object, **more: object) -> Any:
        """Call the plug-in's factory. Raises its AgentErrors, and AgentError(invalid) that names
        the plug-in for everything else that it raises.
        """
        if not callable(self.value):
            raise AgentError(
                "invalid", f"{self.plugin} is a {type(self.value).__name__}, not a function"
            )
        try:
            return cast("Callable[..., Any]", self.value)(*arguments, **more)
        except AgentError:
            raise
        except Exception as e:
            raise AgentError("invalid", f"{self.plugin} failed: {_told(e)}") from e


def folders() -> list[str]:
    """Return the site-packages of this interpreter, and the user's if they are enabled."""
    import site  # noqa: PLC0415  only for a name that is not built in

    own = [*site.getsitepackages()]
    return [*own, site.getusersitepackages()] if site.ENABLE_USER_SITE else own


@cache
def installed() -> tuple[Plugin, ...]:
    """Return all plug-ins, sorted by kind and name. Imports none of them."""
    from importlib import metadata  # noqa: PLC0415  20 ms, only for a name that is not built in

    seen: set[str] = set()
    found: list[Plugin] = []
    for distribution in metadata.distributions(path=folders()):
        try:
            if "treadle." not in (distribution.read_text("entry_points.txt") or ""):
                continue
            package = str(distribution.metadata["Name"] or "a distribution without a name")
            version = str(distribution.metadata["Version"] or "without a version")
        except Exception:  # noqa: BLE001  a damaged distribution is pip's concern
            continue
        if package.lower() not in seen:  # the first on the path is the one that is imported
            seen.add(package.lower())
            found += _plugins_of(distribution, package, version)
    return tuple(sorted(found))


def _plugins_of(distribution: Distribution, package: str, version: str) -> Iterator[Plugin]:
    try:
        points = [*distribution.entry_points]
    except Exception as e:  # noqa: BLE001  text that its author wrote
        yield Plugin("commands", "", "", package, version, problem=_told(e))
        return
    for point in points:
        prefix, _, kind = point.group.partition(".")
        if prefix == "treadle" and kind in KINDS:
            yield Plugin(kind, point.name, point.value, package, version)


def offers(kind: PluginKind, name: str) -> bool:
    """Return True if a plug-in of this kind has this name."""
    return any((plugin.kind, plugin.name) == (kind, name) for plugin in installed())


def names(kind: PluginKind) -> list[str]:
    """Return the names of all plug-ins of this kind."""
    return sorted({plugin.name for plugin in installed() if plugin.kind == kind and plugin.name})


def find(kind: PluginKind, name: str) -> Plugin | None:
    """Return the plug-in of this name, or None. Raises AgentError(invalid) if there are several."""
    found = [plugin for plugin in installed() if (plugin.kind, plugin.name) == (kind, name)]
    if len(found) > 1:
        raise AgentError(
            "invalid",
            f"{' and '.join(map(str, found))} have the same name: uninstall one of them",
        )
    return found[0] if found else None


_loaded: dict[Plugin, object] = {}


def load_plugin(kind: PluginKind, name: str, *, within_s: float = LOAD_S) -> LoadedPlugin | None:
    """Import the plug-in of this name. None if there is none.

    Raises AgentError(invalid), with its distribution and version, if its import fails or takes
    longer than `within_s`.
    """
    plugin = find(kind, name)
    if plugin is None:
        return None
    if plugin not in _loaded:
        _loaded[plugin] = _imported(plugin, within_s)
    return LoadedPlugin(plugin, _loaded[plugin])


def _imported(plugin: Plugin, within_s: float) -> object:
    """Import in a thread, so that a plug-in that never returns costs `within_s` and no more."""
    from importlib.metadata import EntryPoint  # noqa: PLC0415  loaded by now

    point = EntryPoint(plugin.name, plugin.value, f"treadle.{plugin.kind}")
    outcome: list[object] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(point.load())
        except (Exception, SystemExit) as e:  # noqa: BLE001  code of others, reported below
            failure.append(e)

    thread = threading.Thread(target=run, name=f"treadle-plugin-{plugin.name}", daemon=True)
    with contextlib.redirect_stdout(sys.stderr):
        thread.start()
        thread.join(within_s)
    if failure:
        why = f"{plugin} cannot be loaded: {_told(failure[0])}. {_REMEDY}"
        raise AgentError("invalid", why) from failure[0]
    if not outcome:
        raise AgentError(
            "invalid",
            f"{plugin} cannot be loaded: its import takes longer than {within_s:g} s. {_REMEDY}",
        )
    return outcome[0]


def _told(error: BaseException) -> str:
    return one_line(f"{type(error).__name__}: {error}", TEXT_MOST)
