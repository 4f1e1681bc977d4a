"""Translation of SQLite's errors into messages with the next step. Entry points: `translated`,
`as_told`.
"""

from __future__ import annotations

from pathlib import Path

import apsw

from treadle.errors import AgentError, out_of_memory


def translated(
    error: apsw.Error | MemoryError, path: Path, done: str = "nothing was appended"
) -> AgentError:
    """Return the error with its next step. `done`: the known state of the failed operation."""
    if isinstance(error, MemoryError | apsw.NoMemError):
        return out_of_memory(f"the journal {str(path)!r} failed, {done}")
    said = _said(error)
    match error:
        # no space for the file next to the journal
        case _ if (
            isinstance(error, apsw.FullError)
            or getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_SHMSIZE
        ):
            text = (
                f"there is no space left for the journal {str(path)!r}: {done}. Free some space, "
                "then resume"
            )
        case apsw.BusyError() | apsw.LockedError():
            text = (
                f"another process keeps the journal {str(path)!r} locked: {done}. See who uses "
                "the file, then try again"
            )
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.AuthError():
            text = (
                f"the journal {str(path)!r} cannot be written: {done}. Make the file and its "
                "directory writable"
            )
        case apsw.CorruptError() | apsw.NotADBError():
            text = (
                f"the journal {str(path)!r} is damaged ({said}): {done}. Restore a copy, or use "
                "another file; `sqlite3 FILE .recover` saves what can be read"
            )
        case apsw.CantOpenError():
            text = (
                f"the journal {str(path)!r} cannot be opened ({said}): {done}. Check that its "
                "directory exists and is writable"
            )
        case apsw.IOError():
            text = (
                f"the disk failed under the journal {str(path)!r} ({said}): {done}. Check the "
                "disk, then resume"
            )
        case apsw.ConstraintError():
            text = f"the journal {str(path)!r} rejected the operation ({said}): {done}"
        case _:
            text = f"the journal {str(path)!r} failed ({said}): {done}"
    return AgentError("agent", text)


def as_told(error: BaseException, path: Path) -> BaseException:
    """Return the error for the waiter of a write: `translated`, if it came from SQLite or from a
    lack of memory.
    """
    return translated(error, path) if isinstance(error, apsw.Error | MemoryError) else error


def _said(error: apsw.Error) -> str:
    code = getattr(error, "extendedresult", 0)
    if code == 0:  # not an error of SQLite
        return f"{type(error).__name__}: {error}"
    return (
        f"{apsw.mapping_extended_result_codes.get(code) or apsw.mapping_result_codes.get(code)}: "
        f"{error}"
    )
