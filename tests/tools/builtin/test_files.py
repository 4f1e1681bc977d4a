"""Files are opened without following links that were swapped in, and what bytes say as text is
known.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.tools.conftest import MakeContext
from treadle.tools.builtin import files, folder
from treadle.tools.builtin.base import Builtin
from treadle.tools.builtin.coding import default_tools
from treadle.tools.builtin.folder import NotARegularFile, OpenFolder
from treadle.tools.builtin.text import Encoding, binary_kind
from treadle.tools.tool import InvalidArguments, Tool, ToolFailed


def read_all(fd: int) -> bytes:
    with os.fdopen(fd, "rb") as file:
        return file.read()


@pytest.fixture(params=["by descriptor", "by path"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As everywhere, and as where a directory has no descriptor (Windows)."""
    if request.param == "by path":
        monkeypatch.setattr(folder, "_BY_DESCRIPTOR", False)


@pytest.mark.usefixtures("both_ways")
def test_a_folder_looks_up_makes_replaces_and_removes(tmp_path: Path) -> None:
    with OpenFolder.at(str(tmp_path / "a" / "b"), create=True) as here:
        os.close(here.create_file("new", 0o600))
        with pytest.raises(FileExistsError):
            here.create_file("new", 0o600)
        here.replace("new", "newer")
        here.sync()
        assert read_all(here.open_file("newer")) == b""
        with here.entries() as entries:
            assert [entry.name for entry in entries] == ["newer"]
        here.remove_file("newer")
        with pytest.raises(FileNotFoundError):
            here.open_file("newer")
    with OpenFolder.at(str(tmp_path)) as here, here.folder("a") as below:
        assert below.path == str(tmp_path / "a")
        assert below.stat("b").st_mode
        with pytest.raises(NotARegularFile, match="a directory"):
            below.open_file("b")


def test_no_component_of_a_path_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real" / "file").write_text("x")
    (tmp_path / "real" / "link").symlink_to("file")
    for path in ("link", "link/deeper"):
        with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
            OpenFolder.at(str(tmp_path / path))
        with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
            OpenFolder.at(str(tmp_path / path), create=True)
    with (
        OpenFolder.at(str(tmp_path / "real")) as here,
        pytest.raises(NotARegularFile, match="a symbolic link"),
    ):
        here.open_file("link")


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    if not Path("/proc/self/fd").exists():
        pytest.skip("open descriptors are counted in /proc")
    (tmp_path / "f").write_text("x")
    os.mkfifo(tmp_path / "p")
    before = len(os.listdir("/proc/self/fd"))
    for path in ("f", "p", "gone/x", "f/x", "."):
        with suppress(OSError, ToolFailed):
            os.close(files.open_file(files.locate(path, tmp_path)))
    files.save(files.locate("deep/er/f", tmp_path), b"x", None)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_directory_that_flips_to_a_link_leads_nowhere_else(tmp_path: Path) -> None:
    """The path is resolved, and then somebody swaps a directory of it for a link to a secret place:
    2,000 times.
    """
    inside, outside = tmp_path / "work", tmp_path / "outside"
    (inside / "sub").mkdir(parents=True)
    outside.mkdir()
    (inside / "sub" / "f").write_text("mine")
    (outside / "f").write_text("secret")
    (inside / "link").symlink_to(outside)
    stop = threading.Event()

    def flip() -> None:
        while not stop.is_set():
            os.rename(inside / "sub", inside / "aside")
            os.rename(inside / "link", inside / "sub")
            os.rename(inside / "sub", inside / "link")
            os.rename(inside / "aside", inside / "sub")

    flipper = threading.Thread(target=flip)
    place, seen = inside.resolve() / "sub" / "f", set[bytes]()
    flipper.start()
    try:
        for _ in range(2_000):
            with suppress(OSError):
                seen.add(read_all(files.open_file(place)))
    finally:
        stop.set()
        flipper.join()
    assert seen <= {b"mine"}


# ---------------------------------------------------------------- paths


def test_paths_are_resolved_as_the_kernel_would(tmp_path: Path) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "link").symlink_to("d/e")
    root = tmp_path.resolve()
    assert files.locate("link/../x", tmp_path) == root / "d" / "x"
    assert files.locate("~/x", tmp_path) == root / "~" / "x"
    assert files.locate("/etc", tmp_path) == Path("/etc").resolve()


def test_paths_are_shown_relative_inside_the_working_directory_and_printable() -> None:
    cwd = Path("/srv")
    assert files.shown("/srv/a b/ż", cwd) == "a b/ż"
    assert files.shown("/srv-evil/x", cwd) == "/srv-evil/x"
    assert files.shown("/srv", cwd) == "/srv"
    assert files.shown("/srv/a\nb\udcff\u2028\x1b", cwd) == r"a\nb\udcff\u2028\x1b"


# ---------------------------------------------------------------- what bytes are


@pytest.mark.parametrize(
    ("data", "codec", "text"),
    [
        (b"", "utf-8", ""),
        ("żółw".encode(), "utf-8", "żółw"),
        (b"\xef\xbb\xbfx", "utf-8", "x"),
        (b"\xff\xfex\x00", "utf-16-le", "x"),
        (b"\xfe\xff\x00x", "utf-16-be", "x"),
        (b"\xff\xfe\x00\x00x\x00\x00\x00", "utf-32-le", "x"),
        (b"\x00\x00\xfe\xff\x00\x00\x00x", "utf-32-be", "x"),
        (b"\xe9", "latin-1", "é"),
        (b"\xc5", "latin-1", "Å"),
    ],
)
def test_an_encoding_is_found_and_gives_the_same_bytes_back(
    data: bytes, codec: str, text: str
) -> None:
    encoding = Encoding.of(data)
    assert (encoding.codec, encoding.decode(data)) == (codec, text)
    assert encoding.encode(text) == data


def test_a_character_that_is_cut_is_no_fault_in_the_beginning_of_a_file() -> None:
    assert Encoding.of("ż".encode()[:1], whole=False).codec == "utf-8"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"text\x1b[31m\n",
        b"\x0c\n",
        "żółw".encode(),
        b"a" * 70 + b"\x01" * 30,
        b"\xff\xfea\x00",
    ],
)
def test_text_is_not_taken_for_binary(data: bytes) -> None:
    assert binary_kind(data) is None


# ---------------------------------------------------------------- the tools as a set


EFFECTS = {
    "read": "pure",
    "write": "idempotent",
    "edit": "once",
    "apply_patch": "once",
    "bash": "once",
    "bash_output": "pure",
    "bash_kill": "once",
    "glob": "pure",
    "grep": "pure",
    "ls": "pure",
    "todo_write": "pure",
    "fetch": "pure",
}


def test_the_tools_come_in_their_order_and_keep_the_contract() -> None:
    tools = default_tools()
    assert [tool.name for tool in tools] == [
        name for name in EFFECTS if name in {tool.name for tool in tools}
    ]
    assert all(tool.effect == EFFECTS[tool.name] for tool in tools)
    assert all(isinstance(tool, Tool) for tool in tools)


@pytest.mark.parametrize("tool", default_tools(), ids=lambda tool: tool.name)
def test_every_tool_describes_itself_and_its_example_is_right(tool: Builtin[object]) -> None:
    definition = tool.definition
    assert 100 < len(definition.description) < 2_000
    assert definition.parameters["additionalProperties"] is False
    properties = definition.parameters["properties"]
    assert isinstance(properties, dict)
    assert set(json.loads(tool.example)) <= set(properties)
    tool.parse(tool.example)


@pytest.mark.parametrize(
    "arguments", ["null", "5", '"x"', '{"nope": 1}', "{", "{}x", '{"path": ["x"]}']
)
@pytest.mark.parametrize("tool", default_tools(), ids=lambda tool: tool.name)
def test_no_wrong_call_raises_anything_but_invalid_arguments(
    tool: Builtin[object], arguments: str
) -> None:
    with pytest.raises(InvalidArguments, match=f"{tool.name}.*A right call"):
        tool.parse(arguments)


# ---------------------------------------------------------------- attacks


def prepare_attack(case: dict[str, Any], root: Path) -> str:
    """Makes the workspace of one case below `root` and gives its path.

    What races is still here: see the flipping directory above.
    """
    places = {"${WS}": root / "proj", "${OUT}": root / "outside", "${HOME}": root / "home"}
    for place in (
        *places.values(),
        root / "proj-evil",
        root / "proj" / "src",
        root / "proj" / "dir",
    ):
        place.mkdir(parents=True)
    for file in ("proj/a.txt", "proj/src/m.py", "outside/secret.txt", "proj-evil/secret.txt"):
        (root / file).write_text("S3CRET\n" if "secret" in file else "text\n")

    def filled(text: str) -> str:
        for name, place in places.items():
            text = text.replace(name, str(place))
        return text

    for kind, name, *target in case["input"]["setup"]:
        path = root / "proj" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        match kind:
            case "symlink":
                path.symlink_to(filled(target[0]))
            case "hardlink":
                os.link(filled(target[0]), path)
            case "fifo":
                os.mkfifo(path)
            case "file":
                path.write_text(target[0])
            case _:
                path.mkdir()
    return filled(case["input"]["path"])


async def test_every_known_attack_by_path_ends_in_a_result_or_in_words(
    make_context: MakeContext, shared: Path, tmp_path: Path
) -> None:
    tools = {tool.name: tool for tool in default_tools()}
    for number, line in enumerate((shared / "attacks" / "paths.jsonl").read_text().splitlines()):
        case, root = json.loads(line), tmp_path / str(number)
        path = prepare_attack(case, root)
        context, tool = make_context(root / "proj"), tools[case["input"]["tool"]]
        pattern = {"pattern": path} if tool.name in ("glob", "grep") else {"path": path}
        if tool.name == "write" and not files.locate(path, context.cwd).is_relative_to(root):
            continue
        with anyio.fail_after(10):
            try:
                arguments = tool.parse(
                    json.dumps(pattern | ({"content": "x"} if tool.name == "write" else {}))
                )
                shown = await tool.execute(context, arguments)
            except ToolFailed as e:
                shown = e.message
        assert isinstance(shown, str), case["id"]
        if tool.name in ("glob", "grep"):
            assert "secret.txt" not in shown, case["id"]
            assert "S3CRET" not in shown.replace(path, ""), case["id"]
