"""The documents say what is true: their programs run, their links lead somewhere, their names are
there, their help is the real one.

A Python block runs as it stands, in a folder of its own and without any key. A comment on the line
before it changes that:

    <!-- run: no -->            a fragment: it is only compiled
    <!-- run: temporal -->      the file that its first line names; tests/peers runs it
    <!-- run: engine -->        the same
    <!-- run: worker -->        the same; tests/workers/worker runs it
    <!-- script: [...] -->      the entries of a script, which is the default model of this block

A block of kind `text` right after it is what it prints. `python -m tests.test_docs` writes the help
of the commands and the numbers of the walks into the pages anew.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import json
import re
import runpy
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest
from pathlib import Path
from typing import get_args

import click
import pytest

import treadle
from tests.guards.catalogue import text_of_tests
from tests.walks import counted
from treadle.config import FLAGS
from treadle.config.plugins import KINDS
from treadle.messages.events import Event

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "treadle"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!-- (run|script): ((?:(?!-->).)*) -->\Z", re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.*)$", re.MULTILINE)
_HELP = re.compile(
    r"^<!-- help:((?: [\w-]+)*) -->\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    kind: str
    text: str
    how: str
    """`run`, `script`, or nothing."""
    said: str
    """What stands after that word."""
    printed: str | None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(*kinds: str) -> list[Block]:
    return [block for page in PAGES for block in blocks_of(page) if block.kind in kinds]


def blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    fences = list(_FENCE.finditer(text))
    for fence, following in zip_longest(fences, fences[1:]):
        before = text[: fence.start()]
        comment = _COMMENT.search(before.rstrip())
        printed = (
            following[2]
            if following
            and following[1] == "text"
            and not text[fence.end() : following.start()].strip()
            else None
        )
        how, said = comment.groups() if comment else ("", "")
        yield Block(page, before.count("\n") + 2, fence[1], fence[2], how, said, printed)


def names(page: Path) -> str:
    return str(page.relative_to(ROOT))


# ---------------------------------------------------------------- help


@pytest.mark.parametrize("name", sorted(treadle.__all__))
def test_help_describes_a_public_name_and_all_its_fields(name: str) -> None:
    public = getattr(treadle, name)
    if not (inspect.isclass(public) or inspect.isfunction(public)):
        return
    text = inspect.getdoc(public) or ""
    assert text, name
    if not inspect.isclass(public):
        return
    fields = {
        *getattr(public, "__struct_fields__", ()),
        *getattr(public, "__dataclass_fields__", ()),
        *(public.__members__ if issubclass(public, Enum) else ()),
    }
    described = {
        line.split(":")[0].strip() for line in text.partition("Attributes:")[2].split("\n")
    }
    assert sorted(fields - described) == []
    methods = {
        attribute
        for attribute, value in vars(public).items()
        if not attribute.startswith("_") and attribute not in fields
        if isinstance(value, property | classmethod | staticmethod) or inspect.isfunction(value)
    }
    assert [one for one in sorted(methods) if not inspect.getdoc(getattr(public, one))] == []


# ---------------------------------------------------------------- programs


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_a_program_of_the_documents_runs(
    block: Block,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = "\n" * (block.line - 1) + block.text
    if block.how == "run":
        assert block.said in ("no", "temporal", "engine", "worker")
        compile(code, str(block), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        return
    for variable in (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "TREADLE_AGENT_API_KEY",
        "TREADLE_MODEL",
        "ANTHROPIC_BASE_URL",
    ):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    if block.how == "script":
        (tmp_path / "script.json").write_text(json.dumps(json.loads(block.said)))
        monkeypatch.setenv("TREADLE_MODEL", f"script:{tmp_path / 'script.json'}")
    program = tmp_path / f"{block.page.stem}_{block.line}.py"
    program.write_text(code, encoding="utf-8")
    runpy.run_path(str(program), run_name="__main__")
    printed = capsys.readouterr().out
    if block.printed is not None:
        assert printed == block.printed


def test_every_program_that_does_not_run_is_a_fragment_on_purpose() -> None:
    idle = [str(b) for b in blocks("python") if b.said == "no"]
    assert len(idle) <= 12, f"most programs of the documents should run; these do not: {idle}"


# ---------------------------------------------------------------- commands


def commands() -> list[tuple[str, str]]:
    """(place, command line) of every call of ours in a shell block."""
    found: list[tuple[str, str]] = []
    for block in blocks("sh"):
        for i, line in enumerate(block.text.replace("\\\n", " ").splitlines()):
            found += [
                (f"{block.page.relative_to(ROOT)}:{block.line + i}", call)
                for call in re.findall(r"(?:^|[|&(\s/])treadle ([a-z][^|&)#]*)", line)
            ]
    return found


@pytest.mark.parametrize(("place", "line"), commands())
def test_a_command_of_the_documents_has_only_options_that_are_there(place: str, line: str) -> None:
    from treadle.cli.app import app

    unquoted = re.sub(r"'[^']*'|\"[^\"]*\"", "", line)
    words = unquoted.split()
    command = app.get_command(None, words[0])  # pyright: ignore[reportArgumentType]  our own group does not look at the context
    assert command is not None, f"{place}: there is no command {words[0]!r}"
    # `tasks` takes words of a person too
    if isinstance(command, click.Group) and not (
        command.invoke_without_command and words[1:2] != ["mcp"]
    ):
        command = command.get_command(None, words[1])  # pyright: ignore[reportArgumentType]  likewise
        assert command is not None, f"{place}: there is no command {words[1]!r}"
    known = {option for parameter in command.params for option in parameter.opts} | {"--help", "-h"}
    used = {word.partition("=")[0] for word in words[1:] if re.fullmatch(r"--?[a-z].*", word)}
    assert used <= known, f"{place}: {sorted(used - known)}"


def help_of(words: list[str]) -> str:
    from click.testing import CliRunner

    from treadle.cli.app import app

    result = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"}).invoke(
        app, [*words, "--help"], prog_name="treadle", terminal_width=100
    )
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(
    ("page", "words", "told"),
    [
        (page, m[1].split(), m[2])
        for page in PAGES
        for m in _HELP.finditer(page.read_text(encoding="utf-8"))
    ],
)
def test_the_help_in_the_documents_is_the_real_one(page: Path, words: list[str], told: str) -> None:
    assert told == help_of(words), f"{names(page)} is old: run `python -m tests.test_docs`"


def test_every_command_has_its_help_in_the_documents() -> None:
    from treadle.cli.app import COMMANDS, app

    text = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    there: set[str] = set()
    for name in COMMANDS:
        command = app.get_command(click.Context(app), name)
        inner = (
            command.list_commands(click.Context(command))
            if isinstance(command, click.Group)
            else []
        )
        there |= {name, *(f"{name} {each}" for each in inner)}
    shown = {m[1].strip() for m in _HELP.finditer(text) if m[1]}
    assert shown == there, (
        "docs/command-line.md: give each new command a heading, `<!-- help: NAME -->` and an empty "
        "```text block, then run `python -m tests.test_docs`"
    )


def test_every_event_and_every_slash_command_has_a_row_in_the_documents() -> None:
    from treadle.tui.commands.registry import OUR_NAMES

    for page, names_of_rows in (
        ("command-line.md", {str(kind.__struct_config__.tag) for kind in get_args(Event)}),
        ("chat.md", {f"/{name}" for name in OUR_NAMES}),
    ):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        first = " ".join(re.findall(r"^\|([^|]+)\|", text, re.MULTILINE))
        missing = [name for name in sorted(names_of_rows) if not re.search(rf"`{name}\b", first)]
        assert missing == [], f"docs/{page}: add a row to its table for {missing}"


# ---------------------------------------------------------------- links


def anchors(page: Path) -> set[str]:
    """As the usual renderers make them of headings."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return {
        re.sub(r"[^\w\- ]", "", heading[1].lower()).strip().replace(" ", "-")
        for heading in _HEADING.finditer(text)
    }


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_every_link_inside_the_documents_leads_somewhere(page: Path) -> None:
    for target in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{target} is not there"
        assert file.is_relative_to(ROOT), f"{target} leaves the project"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), f"{target}: there is no such heading"


# ---------------------------------------------------------------- names


def modules() -> set[str]:
    return {
        str(file.relative_to(SOURCE))
        for file in SOURCE.rglob("*.py")
        if file.name != "__init__.py" and "demo_project" not in file.parts
    }


def packages() -> list[Path]:
    return [
        file.parent
        for file in sorted(SOURCE.rglob("__init__.py"))
        if file.parent != SOURCE and "demo_project" not in file.parts
    ]


def test_the_architecture_has_a_row_for_each_package() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)/` \| .+ \|$", text, re.MULTILINE)
    assert sorted(rows) == [folder.name for folder in packages() if folder.parent == SOURCE]
    loose = {name for name in modules() if "/" not in name and not name.startswith("__")}
    assert {name for name in loose if f"`{name}`" not in text} == set()


@pytest.mark.parametrize("folder", packages(), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_a_package_says_what_each_of_its_files_is_for(folder: Path) -> None:
    said = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
    there = [
        file.name if file.is_file() else f"{file.name}/"
        for file in sorted(folder.iterdir())
        if (file.suffix == ".py" and file.name != "__init__.py") or (file / "__init__.py").exists()
    ]
    missing = [name for name in there if name not in (said or "")]
    assert missing == [], f"name them in the docstring of {folder.name}/__init__.py"


_FILE = re.compile(r"(?<![\w/.*-])((?:\.?[\w-]+/)*[\w-]+\.(?:md|py|toml))\b")
MAPS = [
    *(ROOT / name for name in ("AGENTS.md", "ARCHITECTURE.md", "CONTRIBUTING.md")),
    ROOT / "docs" / "internals" / "walks.md",
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_no_leftovers_of_a_merge(page: Path) -> None:
    assert re.findall(r"^(?:<{7}|={7}|>{7})(?: .*)?$", page.read_text("utf-8"), re.MULTILINE) == []


@pytest.mark.parametrize("page", MAPS, ids=names)
def test_a_file_that_a_map_of_the_code_names_exists(page: Path) -> None:
    """A path is relative to the project, the package or the page."""
    named = set(_FILE.findall(page.read_text(encoding="utf-8")))
    assert named
    bases = (ROOT, SOURCE, page.parent)
    assert sorted(f for f in named if not any((base / f).is_file() for base in bases)) == []


_MODULE = re.compile(r"`((?:\w+/)*\w+\.py)`")
DECISIONS = [*(ROOT / "docs" / "decisions").glob("*.md")]


@pytest.mark.parametrize("page", sorted(DECISIONS), ids=names)
def test_a_module_that_a_decision_names_exists(page: Path) -> None:
    named = set(_MODULE.findall(page.read_text(encoding="utf-8")))
    bases = (ROOT, SOURCE)
    assert sorted(f for f in named if not any((base / f).is_file() for base in bases)) == []


def test_the_layers_of_the_architecture_are_those_that_are_checked() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "importlinter"
    ]["contracts"]
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    drawn = _FENCE.search(text, text.index("## Layers"))
    assert drawn is not None
    assert [re.split(r"  +", line)[0] for line in drawn[2].splitlines()] == contracts[0]["layers"]


def test_the_architecture_and_the_notes_for_agents_stay_short() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()) <= 300
    assert len((ROOT / "AGENTS.md").read_text(encoding="utf-8").split()) <= 600


def test_the_names_of_the_package_stand_in_the_documents() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    missing = [name for name in treadle.__all__ if not re.search(rf"\b{name}\b", text)]
    assert not missing, f"no document says a word about {missing}"


_NAMED = re.compile(r"`treadle\.([\w.]+?)(?:\([^`]*\))?`")


@pytest.mark.parametrize(
    "page", [p for p in PAGES if p.name not in ("origins.md", "CHANGELOG.md")], ids=names
)
def test_a_name_that_a_document_gives_is_there(page: Path) -> None:
    for dotted in _NAMED.findall(page.read_text(encoding="utf-8")):
        if dotted.endswith("yaml") or dotted in KINDS:  # a file, or a group of entry points
            continue
        assert resolves(dotted), f"treadle.{dotted} is not there"


_PLACED = re.compile(r"`([A-Za-z_]\w*)(?:\.(\w+))?(?:\([^`]*\))?` \(((?:\w+/)*\w+)\.py\)")


def test_a_name_of_the_origins_is_where_they_say() -> None:
    text = (ROOT / "docs" / "internals" / "origins.md").read_text(encoding="utf-8")
    placed = _PLACED.findall(text)
    assert len(placed) > 40
    assert not [
        f"{module}.py: {name}.{attribute}"
        for name, attribute, module in placed
        if not has(module, name, attribute)
    ]


def test_a_file_that_the_origins_name_is_there() -> None:
    text = (ROOT / "docs" / "internals" / "origins.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:\w+/)*\w+\.py\b", text))
    assert not sorted(file for file in named if not (SOURCE / file).exists())


@functools.cache
def attributes() -> dict[str, set[str]]:
    """Of every class of the package, by name: what it and the classes it is made from define."""
    own: dict[str, set[str]] = {}
    bases: dict[str, set[str]] = {}
    for file in modules():
        for node in ast.walk(ast.parse((SOURCE / file).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                stored = {
                    n.attr
                    for n in ast.walk(node)
                    if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)
                }
                fields = {t.id for n in node.body for t in targets(n)}
                own.setdefault(node.name, set()).update(
                    stored,
                    fields,
                    (
                        n.name
                        for n in node.body
                        if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))
                    ),
                )
                bases.setdefault(node.name, set()).update(
                    re.findall(r"\w+", " ".join(map(ast.unparse, node.bases)))
                )

    def above(name: str) -> set[str]:
        return own.get(name, set()).union(
            *(above(base) for base in bases.get(name, set()) - {name})
        )

    return {name: above(name) for name in own}


def targets(node: ast.stmt) -> list[ast.Name]:
    found = (
        [node.target]
        if isinstance(node, ast.AnnAssign)
        else node.targets
        if isinstance(node, ast.Assign)
        else []
    )
    return [target for target in found if isinstance(target, ast.Name)]


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_an_attribute_that_a_document_names_is_there(page: Path) -> None:
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    if page.name == "origins.md":  # the first cell of a row is an old name
        text = "\n".join(line.split("|")[2] for line in text.splitlines() if line.startswith("| "))
    there = attributes()
    named: set[tuple[str, str]] = {
        (m[1], m[2])
        for m in re.finditer(r"`(?:await )?([A-Z]\w+)\.([a-z_]\w*)(?:\([^`]*\))?`", text)
    }
    assert not sorted(
        f"{name}.{attribute}"
        for name, attribute in named
        if name in there and attribute not in there[name]
    )


def resolves(dotted: str) -> bool:
    parts = dotted.split(".")
    for cut in range(len(parts), -1, -1):
        try:
            found: object = importlib.import_module(".".join(["treadle", *parts[:cut]]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            if not hasattr(found, name) and name not in getattr(found, "__annotations__", {}):
                return False
            found = getattr(found, name, None)
        return True
    return False


def has(file: str, name: str, attribute: str) -> bool:
    """Also a method of any class there, and what an object sets on itself."""
    home = importlib.import_module(f"treadle.{file.replace('/', '.')}")
    text = (SOURCE / f"{file}.py").read_text(encoding="utf-8")
    if not hasattr(home, name):
        return f"def {name}(" in text
    found: object = getattr(home, name)
    return (
        not attribute
        or hasattr(found, attribute)
        or attribute in getattr(found, "__annotations__", {})
        or f"self.{attribute} " in text
    )


@pytest.mark.parametrize(
    "page", [p for p in PAGES if p.name in ("durability.md", "models-review.md")], ids=names
)
def test_a_test_that_the_evidence_names_is_there(page: Path) -> None:
    """`FILE::NAME`, and `NAME` alone for another one of the file named last; FILE is below tests/."""
    file, named, gone = None, 0, list[str]()
    for found in re.findall(r"`([\w/]+\.py)?(?:::)?(test_\w+)?`", page.read_text(encoding="utf-8")):
        path, name = found
        if path:
            file = next((f for f in (ROOT / path, ROOT / "tests" / path) if f.exists()), None)
        if not name:
            continue
        named += 1
        if file is None or not re.search(rf"def {name}\(", text_of_tests(file)):
            gone.append(f"{path}::{name}")
    assert named > 10
    assert gone == []


def test_the_walks_are_counted() -> None:
    page = (ROOT / "docs" / "internals" / "walks.md").read_text(encoding="utf-8")
    assert page == counted(page), "docs/internals/walks.md is old: run `python -m tests.test_docs`"


def test_every_option_that_sets_a_key_is_in_the_page_on_configuration() -> None:
    from treadle.cli.run import run

    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    here = {option for parameter in run.params for option in parameter.opts}
    assert not [option for option in FLAGS if option in here and f"`{option}`" not in text]


if __name__ == "__main__":
    for each in PAGES:
        old = each.read_text(encoding="utf-8")
        new = _HELP.sub(
            lambda m: m[0].replace(f"```text\n{m[2]}", f"```text\n{help_of(m[1].split())}"), old
        )
        if each.name == "walks.md":
            new = counted(new)
        if new != old:
            each.write_text(new, encoding="utf-8")
            print(names(each))
