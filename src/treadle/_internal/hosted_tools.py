"""Tools that a provider runs on its own servers, as `Settings.hosted_tools` names them.

types.py exports them. Entry points: `WebSearch`, `CodeExecution`, `FileSearch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, cast, get_args

import msgspec

HostedTool: TypeAlias = Literal["web_search", "web_fetch", "code_execution"]
"""A tool that the provider runs on its own servers."""


class WebSearch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="web_search"):
    """Web search by the provider.

    Attributes:
        max_uses: Maximum number of searches per request to the model; None: no limit.
        allowed_domains: The only domains to search, such as "docs.python.org"; empty: all.
    """

    max_uses: int | None = None
    allowed_domains: Sequence[str] = ()

    def __post_init__(self) -> None:
        _freeze(self, "allowed_domains")


class CodeExecution(msgspec.Struct, frozen=True, tag="code_execution"):
    """Execution of the model's programs by the provider, in a separate container."""


class FileSearch(msgspec.Struct, frozen=True, kw_only=True, tag="file_search"):
    """Search in files that are stored at the provider.

    Attributes:
        stores: Ids of the provider's stores, such as "vs_123".
    """

    stores: Sequence[str]

    def __post_init__(self) -> None:
        _freeze(self, "stores")


TypedTool: TypeAlias = WebSearch | CodeExecution | FileSearch
LIKE = (
    f"a tuple of {', '.join(map(repr, get_args(HostedTool)))}, WebSearch(max_uses=3), "
    "CodeExecution() and FileSearch(stores=['vs_1'])"
)


def name_of(tool: HostedTool | TypedTool) -> str:
    """Return the name of a hosted tool, by which wires define it."""
    return tool if isinstance(tool, str) else str(tool.__struct_config__.tag)


def are_hosted(value: object) -> bool:
    """Return True for a tuple of valid hosted tools."""
    return isinstance(value, tuple) and all(map(_is_hosted, cast("tuple[object, ...]", value)))


def _is_hosted(tool: object) -> bool:
    match tool:
        case WebSearch():
            uses: object = tool.max_uses
            is_count = isinstance(uses, int) and not isinstance(uses, bool) and uses > 0
            return (uses is None or is_count) and _are_texts(tool.allowed_domains)
        case FileSearch():
            return bool(tool.stores) and _are_texts(tool.stores)
        case _:
            return isinstance(tool, CodeExecution) or tool in get_args(HostedTool)


def _are_texts(values: object) -> bool:
    texts = cast("tuple[object, ...]", values)
    return isinstance(values, tuple) and all(isinstance(text, str) and text for text in texts)


def _freeze(tool: msgspec.Struct, name: str) -> None:
    value: object = getattr(tool, name)
    if isinstance(value, list):  # equal to the one that is read back from a journal
        msgspec.structs.force_setattr(tool, name, tuple(cast("list[object]", value)))
