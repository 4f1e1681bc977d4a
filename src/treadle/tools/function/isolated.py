"""Child process of an isolated tool: load the function, call it, answer in one line of JSON.

isolate.py starts and kills the process. A function is found by its module and its name, so it must
be at the top level of a module or of the script that was started. The script is run a second time
under another name: put code that must run only once below `if __name__ == "__main__":`. Entry
points: `Target`, `main`.
"""

from __future__ import annotations

import faulthandler
import importlib
import importlib.machinery
import importlib.util
import inspect
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import msgspec

from treadle.errors import AgentError
from treadle.tools.tool import InvalidArguments, ToolDone, ToolFailed

MAX_REPLY_BYTES: Final = 32 * 1024 * 1024
ANSWER: Final = b"\x1e"
"""Marks the beginning of the reply, because Python's start-up may print something before it."""
_SCRIPT: Final = "__treadle_main__"
"""Name of the user's script here, so that its main block does not run again."""
_STDIN, _STDOUT, _STDERR = 0, 1, 2
_LOOK_S: Final = 0.05
"""Interval in seconds at which the child checks that its parent is alive."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Location of a function, from which another process can load it."""

    module: str | None
    """Module of the function; None for the script that was started."""
    file: str | None
    function: str
    tool: str
    nothing: str
    """Text that replaces the result None."""

    @classmethod
    def of(cls, function: Callable[..., object], label: str, *, tool: str, nothing: str) -> Target:
        """Return the location of a function. Raises AgentError(invalid) if another process could
        not load it.
        """
        if (
            not inspect.isfunction(function)
            or "." in function.__qualname__
            or "<" in function.__qualname__
        ):
            raise AgentError(
                "invalid",
                (
                    f"{label}: isolate='process' takes a function that another process can import, "
                    "at the top level of a module"
                ),
            )
        names: dict[str, Any] = function.__globals__
        module: str | None = names.get("__name__")
        file: str | None = names.get("__file__")
        if module == "__main__":  # with `python -m`, the spec has the real name; a script has none
            spec = names.get("__spec__")
            module = spec.name if spec is not None and spec.name != "__main__" else None
        if module is None and (file is None or not os.path.exists(file)):
            raise AgentError(
                "invalid",
                (
                    f"{label}: isolate='process' needs a function that is defined in a file, and "
                    "this one was typed into an interpreter: move it into a module"
                ),
            )
        return cls(
            module=module,
            file=file and os.path.abspath(file),
            function=function.__name__,
            tool=tool,
            nothing=nothing,
        )

    def load(self) -> Callable[..., object]:
        """Load the function, in the child process. Propagates exceptions of the module's import."""
        found = getattr(self._module(), self.function)
        return getattr(found, "function", found)

    def _module(self) -> ModuleType:
        if self.module is None:
            return _from_file(_SCRIPT, self.file or "")
        try:
            return importlib.import_module(self.module)
        except ModuleNotFoundError as e:
            if (
                self.file is None
                or e.name is None
                or not f"{self.module}.".startswith(f"{e.name}.")
            ):
                raise
            # the first process imported it in another way than through sys.path
            return _from_file(self.module, self.file)


def _from_file(name: str, file: str) -> ModuleType:
    loader = importlib.machinery.SourceFileLoader(name, file)
    spec = importlib.util.spec_from_file_location(name, file, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader.exec_module(module)
    return module


# ---------------------------------------------------------------- in the child process

_loading: Final[list[str]] = []


def refuse_while_loading(target: Target) -> None:
    """Raise AgentError(invalid) if a script that is being loaded for one of its tools starts its
    agents again.
    """
    if _loading:
        raise AgentError(
            "invalid",
            (
                f"{target.tool!r} was called while its script was loaded for the tool "
                f"{_loading[0]!r}: put what the script does below `if __name__ == '__main__':`"
            ),
        )


def main(request: dict[str, Any]) -> None:
    """Call the function and write the reply to the original stdout. Redirects stdout to stderr, and
    stdin to the null device, before the function is loaded.
    """
    parent, answer = os.dup(_STDIN), os.dup(_STDOUT)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, _STDIN)
    os.close(nothing)
    os.dup2(_STDERR, _STDOUT)
    threading.Thread(target=_die_with, args=(parent, request["parent"]), daemon=True).start()
    _show_crashes()
    reply = json.dumps(_call(request)).encode()
    if len(reply) >= MAX_REPLY_BYTES:
        text = (
            f"The tool ran, but its result has {len(reply)} bytes, more than the limit of "
            f"{MAX_REPLY_BYTES}."
        )
        reply = json.dumps({"failed": text, "happened": True}).encode()
    with open(answer, "wb") as out:
        out.write(ANSWER + reply + b"\n")


def _show_crashes() -> None:
    """Print where the function was when a signal killed it, but no stack of C functions, which
    would leave no room for what the function printed.
    """
    if sys.version_info >= (3, 14):
        faulthandler.enable(c_stack=False)
    else:
        faulthandler.enable()


def _die_with(pipe: int, parent: int) -> None:
    """Exit when the parent process does. The parent holds the other end of this pipe, which closes
    with it unless a process forked from the parent holds it open too.
    """
    if sys.platform == "win32":
        os.read(pipe, 1)
        os._exit(1)
    threading.Thread(target=_die_without, args=(parent,), daemon=True).start()
    os.read(pipe, 1)
    os.killpg(0, signal.SIGKILL)


def _die_without(parent: int) -> None:
    """Poll for the parent process, because a process forked from it may hold its pipe open."""
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os.killpg(0, signal.SIGKILL)


def _call(request: dict[str, Any]) -> dict[str, Any]:
    try:
        target = Target(**request["target"])
        _loading.append(target.tool)
        function = target.load()
        _loading.clear()
    except BaseException as e:  # noqa: BLE001  importing a module runs arbitrary code
        return {"unloadable": _said(e)}
    try:
        return _answer(function, target, request)
    except InvalidArguments as e:
        return {"invalid": e.message}
    except ToolFailed as e:
        return {"failed": e.message, "happened": e.happened}
    except BaseException as e:  # noqa: BLE001  the boundary of the process: the parent raises it again
        return {"raised": type(e).__name__, "message": _words(e), "trace": traceback.format_exc()}


def _answer(
    function: Callable[..., object], target: Target, request: dict[str, Any]
) -> dict[str, Any]:
    from treadle.tools.function.returned import final, to_output  # noqa: PLC0415  after the function was loaded: its errors come first

    arguments = (
        request["arguments"]
        if "arguments" in request
        else _parsed(function, target, request["text"])
    )
    output = to_output(function(**arguments), target.nothing)
    if isinstance(output, ToolDone):
        return {"done": final(output)[1]}
    return {"text": output} if isinstance(output, str) else {"parts": msgspec.to_builtins(output)}


def _parsed(function: Callable[..., object], target: Target, text: str) -> dict[str, Any]:
    from treadle.tools.function.arguments import SignatureArguments  # noqa: PLC0415  pydantic, only for values that JSON cannot carry
    from treadle.tools.function.signature import Signature  # noqa: PLC0415  see above

    return SignatureArguments(target.tool, None, Signature.of(function), None).parse(text)


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {_words(error)}"


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  __str__ is arbitrary code
        return ""
