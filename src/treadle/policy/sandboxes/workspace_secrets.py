"""Files of a workspace that probably contain a secret, and its named pipes, searched before each
command that must not see them.

Detection is by name, as for file tools (guarded_paths.py). Not searched: `.git`, whose
configuration git itself needs, and directories of third-party files (`NOT_LOOKED_INTO`). Entry:
`WorkspaceSecrets`.
"""

from __future__ import annotations

import os
import stat
from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from treadle._internal.stamps import Stamp, stamp_of
from treadle.errors import AgentError
from treadle.policy.guarded_paths import holds_only_secrets, is_secret, may_be_secret_name
from treadle.policy.sandboxes.control_files import NOT_LOOKED_INTO

MAX_FOLDERS = 20_000
"""Maximum number of searched directories, topmost first."""
MAX_HIDDEN = 150
"""Maximum number of files and directories that are hidden individually, each by a mount.

Beyond it, the directories with most of them are hidden as a whole.
"""
QUICK_FOLDERS = 200
NOTE = (
    f"The workspace has more than {MAX_FOLDERS:,} folders: files in deeper ones that hold "
    "secrets, and named pipes, were not hidden from the command."
)


class _Folder(NamedTuple):
    stamp: Stamp
    secrets: tuple[str, ...]
    folders: tuple[str, ...]
    pipes: tuple[str, ...] = ()


class SecretPaths(NamedTuple):
    paths: Sequence[str] = ()
    """Absolute paths; links are not resolved."""
    notes: Sequence[str] = ()
    """Notes for the model, if not everything is hidden file by file."""
    pipes: Sequence[str] = ()
    """Named pipes, by absolute path.

    They are writable even on a read-only mount, and their readers may act on what is written.
    """


class WorkspaceSecrets:
    """Index of the secrets of one workspace.

    Caches each directory until its ctime changes, so that another search costs one stat per
    directory.
    """

    def __init__(self, workspace: Path) -> None:
        self._root = str(workspace)
        self._known: dict[str, _Folder] = {}

    @property
    def is_quick(self) -> bool:
        """True if another search is faster than switching threads."""
        return 0 < len(self._known) <= QUICK_FOLDERS

    def look(self, is_granted: Callable[[str], bool]) -> SecretPaths:
        """Find the secrets and pipes of the workspace. Blocks. `is_granted`: returns True for the
        absolute path of a secret that commands may see.

        If there are too many secrets, folders are hidden as a whole. Raises AgentError(tool) if too
        many are at the top of the workspace, where no folder can be hidden instead.
        """
        found, pipes = list[str](), list[str]()
        waiting, looked_into = deque([""]), 0
        while waiting and looked_into < MAX_FOLDERS:
            looked_into += 1
            if (folder := self._folder(waiting.popleft())) is not None:
                found += folder.secrets
                pipes += folder.pipes
                waiting += folder.folders
        notes = [NOTE] if waiting else []
        kept = [path for path in found if not is_granted(os.path.join(self._root, path))]
        if len(kept) > MAX_HIDDEN:
            kept, folders = _with_folders(kept)
            notes.append(
                f"More than {MAX_HIDDEN} files hold secrets: {', '.join(folders)[:500]} appeared "
                f"empty. A rule like read({folders[0]}/**) shows them."
            )
        if len(pipes) > MAX_HIDDEN:
            notes.append(
                f"The workspace has more than {MAX_HIDDEN} named pipes: the others can be written."
            )
        return SecretPaths(
            [os.path.join(self._root, path) for path in kept],
            notes,
            [os.path.join(self._root, path) for path in pipes[:MAX_HIDDEN]],
        )

    def _folder(self, path: str) -> _Folder | None:
        place = os.path.join(self._root, path) if path else self._root
        try:
            stamp = stamp_of(os.lstat(place))
            known = self._known.get(path)
            if known is not None and known.stamp == stamp:
                return known
            is_settled = stamp.is_settled()
            with os.scandir(place) as entries:
                known = _sorted_out(path, stamp, list(entries))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:  # its files can still be opened by name
            return _Folder(Stamp(), (path,), ()) if path else None
        if is_settled:
            self._known[path] = known
        return known


def _sorted_out(folder: str, stamp: Stamp, entries: Collection[os.DirEntry[str]]) -> _Folder:
    secrets, folders, pipes = list[str](), list[str](), list[str]()
    inside_one = bool(folder) and is_secret(f"/{folder}/_")
    for entry in entries:
        name = entry.name
        path = f"{folder}/{name}" if folder else name
        is_folder = entry.is_dir(follow_symlinks=False)
        if name == ".git" and is_folder:
            secrets += (
                [f"{path}/credentials"]
                if os.path.lexists(os.path.join(entry.path, "credentials"))
                else []
            )
        elif (
            (inside_one or may_be_secret_name(name))
            and is_secret(f"/{path}")
            and (not os.path.isdir(entry.path) or holds_only_secrets(f"/{path}"))
        ):
            secrets.append(path)
        elif is_folder and name not in NOT_LOOKED_INTO:
            folders.append(path)
        elif (
            not is_folder
            and not entry.is_file(follow_symlinks=False)
            and not entry.is_symlink()
            and _is_pipe(entry)
        ):
            pipes.append(path)
    return _Folder(stamp, tuple(secrets), tuple(folders), tuple(pipes))


def _is_pipe(entry: os.DirEntry[str]) -> bool:
    with suppress(OSError):
        return stat.S_ISFIFO(entry.stat(follow_symlinks=False).st_mode)
    return False


def _with_folders(paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return fewer places that hide the same files, and the directories among them that are hidden
    as a whole.
    """
    kept, folders = list(paths), list[str]()
    while len(kept) > MAX_HIDDEN:
        parents = Counter(parent for path in kept if (parent := path.rpartition("/")[0]))
        if not parents:
            why = (
                f"more than {MAX_HIDDEN} files at the top of the working directory likely hold "
                "secrets; allow those that do not: read(NAME)"
            )
            raise AgentError("tool", why)
        ((most, _),) = parents.most_common(1)
        kept = [most, *(path for path in kept if not path.startswith(f"{most}/"))]
        folders = [most, *(folder for folder in folders if not folder.startswith(f"{most}/"))]
    return kept, folders
