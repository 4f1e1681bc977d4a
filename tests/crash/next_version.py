"""Our own code as a version after this one may have it: a migration more, entries of a newer
schema, another number. Entry: `next_version`.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"
NUMBER = "99.0.0"

_CHANGES: Mapping[str, Mapping[str, str]] = {
    "__init__.py": {'__version__ = "': f'__version__ = "{NUMBER}"  # '},
    "journal/entries.py": {
        "\nSCHEMA = 1\n": "\nSCHEMA = 2\n",
        "    run_id: str\n    agent: str\n": '    run_id: str\n    flavour: str = "sweet"\n    agent: str\n',
    },
    "journal/tables/upcasting.py": {
        "UPCASTERS: Mapping[int, Upcaster] = {}": "UPCASTERS: Mapping[int, Upcaster] = {1: bytes}"
    },
    "journal/postgres/schema.py": {
        "\nVERSION: Final = ": '\nMIGRATIONS = (*MIGRATIONS, Migration("alter table treadle.runs add column flavour text", len(MIGRATIONS)))\nVERSION = ',
    },
    "journal/sqlite/schema.py": {
        "\nVERSION = ": '\nMIGRATIONS = (*MIGRATIONS, "alter table runs add column flavour text")\nVERSION = '
    },
}


def next_version(folder: Path) -> Path:
    """Makes it there; gives what PYTHONPATH has to begin with."""
    source = folder / "src"
    shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("__pycache__"))
    for name, changes in _CHANGES.items():
        file = source / "treadle" / name
        text = file.read_text(encoding="utf-8")
        for before, after in changes.items():
            assert text.count(before) == 1, (
                f"{before!r} does not stand once in {name}: say here how it reads now"
            )
            text = text.replace(before, after)
        file.write_text(text, encoding="utf-8")
    return source
