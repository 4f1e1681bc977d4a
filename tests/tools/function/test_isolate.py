"""Functions in processes of their own: what goes in, what comes out, and that nothing is left."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import anyio
import pytest

from tests.tools.conftest import MakeContext
from tests.tools.function import isolated_functions as functions
from treadle.messages.message import MediaPart
from treadle.tools.function import FunctionTool, tool
from treadle.tools.tool import InvalidArguments, ToolContext, ToolDone, ToolFailed, ToolOutput

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and process groups")
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def ctx(make_context: MakeContext, tmp_path: Path) -> ToolContext[Any]:
    return make_context(tmp_path, environment={"GIVEN": "yes"})


async def run(made: FunctionTool[Any], ctx: ToolContext[Any], **arguments: object) -> ToolOutput:
    with anyio.fail_after(30):
        return await made.execute(ctx, made.parse(json.dumps(arguments)))


# ---------------------------------------------------------------- in and out


async def test_it_runs_elsewhere_with_the_contexts_directory_and_environment(
    ctx: ToolContext[Any], tmp_path: Path
) -> None:
    told = json.loads(str(await run(functions.where, ctx, word="ä\n", numbers=[1, 2.5])))
    assert told["pid"] != os.getpid()
    assert told["cwd"] == str(tmp_path)
    assert told["environment"].items() >= {"GIVEN": "yes"}.items()
    assert "HOME" not in told["environment"]
    assert (told["word"], told["numbers"], told["name"], told["stdin"]) == (
        "ä\n",
        [1, 2.5],
        functions.__name__,
        "",
    )
    assert told["pydantic"] is False  # plain arguments travel as they are


async def test_it_can_end_the_run_with_its_value(ctx: ToolContext[Any]) -> None:
    assert await run(functions.ends, ctx) == ToolDone({"number": 7})


async def test_arguments_that_json_cannot_carry_arrive_in_their_types(
    ctx: ToolContext[Any],
) -> None:
    assert (
        await run(functions.typed, ctx, day="2026-01-02", path="/x", colour="red")
        == '["date","PosixPath","Colour","2026-01-02"]'
    )


async def test_what_it_prints_is_kept_apart_from_its_result(ctx: ToolContext[Any]) -> None:
    assert await run(functions.loud, ctx, megabytes=20) == "this"


@pytest.mark.parametrize(
    ("made", "output"),
    [
        (functions.nothing, "done"),
        (functions.maybe, "null"),
        (functions.picture, (MediaPart(media_type="image/png", data="iVBORw0KGgo="),)),
        (functions.half_a_surrogate, "\ud800"),
    ],
)
async def test_results_are_what_they_are_without_a_process(
    ctx: ToolContext[Any], made: FunctionTool[Any], output: object
) -> None:
    assert await run(made, ctx) == output


def test_a_plain_call_starts_no_process() -> None:
    assert functions.half_a_surrogate() == "\ud800"
    assert functions.own_pid() == os.getpid()


# ---------------------------------------------------------------- going wrong


async def test_what_it_raises_is_raised_under_its_name_with_its_trace(
    ctx: ToolContext[Any],
) -> None:
    with pytest.raises(Exception, match="no such thing") as e:
        await run(functions.fails, ctx, how="value")
    assert type(e.value).__name__ == "ValueError"
    assert "isolated_functions.py" in e.value.__notes__[0]


async def test_an_exit_is_an_error_like_others(ctx: ToolContext[Any]) -> None:
    with pytest.raises(Exception, match="3") as e:
        await run(functions.fails, ctx, how="exit")
    assert type(e.value).__name__ == "SystemExit"
    assert isinstance(e.value, Exception)


async def test_an_error_that_cannot_say_itself_is_named(ctx: ToolContext[Any]) -> None:
    with pytest.raises(Exception) as e:
        await run(functions.fails, ctx, how="mute")
    assert type(e.value).__name__ == "Mute"


async def test_failures_for_the_model_come_through(ctx: ToolContext[Any]) -> None:
    with pytest.raises(ToolFailed, match="half done") as e:
        await run(functions.fails, ctx, how="tool")
    assert e.value.happened is None
    with pytest.raises(InvalidArguments, match="give more"):
        await run(functions.fails, ctx, how="arguments")
    with pytest.raises(ToolFailed, match="returned a object that cannot be written as JSON") as e:
        await run(functions.fails, ctx, how="object")
    assert e.value.happened is True


@pytest.mark.parametrize(
    ("how", "death"),
    [
        ("exit", "ended with exit code 7"),
        ("signal", "was killed by SIGSEGV"),
        pytest.param(
            "unnamed",
            r"was killed by signal \d+",
            marks=pytest.mark.skipif(
                sys.platform == "darwin", reason="every signal has a name there"
            ),
        ),
        ("pipe", "closed its pipe and stayed"),
    ],
)
async def test_a_death_leaves_it_unknown_and_says_how(
    ctx: ToolContext[Any], how: str, death: str
) -> None:
    with pytest.raises(
        ToolFailed,
        match=rf"The process of the tool 'dies' {death}.* before it returned a result\. It printed last:\nlast words",
    ) as e:
        await run(functions.dies, ctx, how=how)
    assert e.value.happened is None


async def test_a_process_that_cannot_even_begin_is_told(
    ctx: ToolContext[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(
        ToolFailed,
        match=r"The process of the tool 'where' ended with exit code 1 before it returned a result\.$",
    ):
        await run(functions.where, ctx, word="x" * 1_000_000)


async def test_a_long_result_arrives_whole(ctx: ToolContext[Any]) -> None:
    told = json.loads(str(await run(functions.where, ctx, word="ä" * 1_000_000)))
    assert told["word"] == "ä" * 1_000_000


async def test_a_result_that_is_too_large_is_refused(ctx: ToolContext[Any]) -> None:
    with pytest.raises(ToolFailed, match="more than the limit of 33554432") as e:
        await run(functions.huge, ctx)
    assert e.value.happened is True


async def test_a_directory_that_is_gone_is_told(make_context: MakeContext, tmp_path: Path) -> None:
    with pytest.raises(ToolFailed, match="could not be started") as e:
        await run(functions.nothing, make_context(tmp_path / "gone"))
    assert e.value.happened is False


def gone() -> None: ...


vanished = tool(isolate="process")(gone)
del gone


async def test_a_function_that_is_not_found_there_did_nothing(ctx: ToolContext[Any]) -> None:
    with pytest.raises(
        ToolFailed, match="'gone' could not be loaded in its process: AttributeError"
    ) as e:
        await run(vanished, ctx)
    assert e.value.happened is False


# ---------------------------------------------------------------- nothing is left


class Fifo:
    """A named pipe: whoever opened it for writing is gone when it reads to its end."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "fifo"
        os.mkfifo(self.path)
        self.fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)

    async def wait(self) -> bytes:
        """What was written, or b"" at the end."""
        while True:
            await anyio.wait_readable(self.fd)
            try:
                return os.read(self.fd, 100)
            except BlockingIOError:
                continue


@pytest.fixture
def fifo(tmp_path: Path) -> Any:
    one = Fifo(tmp_path)
    yield one
    os.close(one.fd)


async def test_cancelling_kills_it_and_its_children_at_once(
    ctx: ToolContext[Any], fifo: Fifo
) -> None:
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(
                functions.hangs.execute,
                ctx,
                functions.hangs.parse(json.dumps({"fifo": str(fifo.path)})),
            )
            assert await fifo.wait() == b"up"
            group.cancel_scope.cancel()
        assert await fifo.wait() == b""


FORKS = """
import json
import os
import sys
import anyio
from tests.tools.function import isolated_functions as functions
from pathlib import Path
from treadle.tools.tool import ToolContext

def ctx():
    return ToolContext(deps=None, run_id="r", session_id=None, call_id="c", user_id=None, cwd=Path.cwd(), deadline=None, attempt=1,
        idempotency_key="k", spill=Path)

async def main():
    async with anyio.create_task_group() as group:
        group.start_soon(functions.hangs.execute, ctx(), functions.hangs.parse(json.dumps({"fifo": sys.argv[1]})))
        await anyio.to_thread.run_sync(sys.stdin.buffer.read, 1)
        if os.fork() == 0:
            os.read(0, 1)
            os._exit(0)
        os.kill(os.getpid(), 9)

anyio.run(main)
"""


async def test_it_ends_with_the_process_that_waits_for_it_also_where_that_has_forked(
    fifo: Fifo, tmp_path: Path
) -> None:
    """The forked process holds the pipe that tells of the other one's end."""
    (tmp_path / "forks.py").write_text(FORKS)
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "forks.py"), str(fifo.path)],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as driver:
        assert driver.stdin is not None
        with anyio.fail_after(30):
            assert await fifo.wait() == b"up"
            driver.stdin.write(b"x")
            driver.stdin.flush()
            assert await fifo.wait() == b""
        driver.stdin.close()


async def test_what_it_leaves_running_is_killed_when_it_returns(
    ctx: ToolContext[Any], fifo: Fifo
) -> None:
    assert await run(functions.leaves_a_child, ctx, fifo=str(fifo.path)) == "left"
    with anyio.fail_after(30):
        assert await fifo.wait() == b"up"
        assert await fifo.wait() == b""


async def test_a_thread_that_it_leaves_holds_up_nobody(ctx: ToolContext[Any]) -> None:
    assert await run(functions.leaves_a_thread, ctx) == "left"


async def test_it_may_clean_up_at_exit(ctx: ToolContext[Any], tmp_path: Path) -> None:
    assert await run(functions.cleans_up, ctx, file=str(tmp_path / "file")) == "ran"
    assert (tmp_path / "file").read_text() == "clean"


SCRIPT = """
import sys
import anyio
from pathlib import Path
from treadle.tools.tool import ToolContext
from treadle.tools.function import tool

print("loaded as", __name__, flush=True)

@tool(isolate="process")
def where(word: str) -> str:
    return f"{word} {__name__}"

def ctx():
    return ToolContext(deps=None, run_id="r", session_id=None, call_id="c", user_id=None, cwd=Path.cwd(), deadline=None, attempt=1,
        idempotency_key="k", spill=Path)

async def main():
    print(await where.execute(ctx(), where.parse('{"word": "hello from"}')), flush=True)
"""
GUARDED = SCRIPT + '\nif __name__ == "__main__":\n    anyio.run(main)\n'


def python(*arguments: str, cwd: Path, text: str | None = None) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        input=text,
        timeout=200,
    )
    return done.stdout + done.stderr


def test_a_function_of_a_script_is_found_under_another_name(tmp_path: Path) -> None:
    (tmp_path / "script").write_text(GUARDED)
    assert (
        python(str(tmp_path / "script"), cwd=tmp_path)
        == "loaded as __main__\nhello from __treadle_main__\n"
    )


def test_a_function_of_a_module_that_is_run_is_found_under_its_real_name(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text(GUARDED)
    assert (
        python("-m", "package", cwd=tmp_path) == "loaded as __main__\nhello from package.__main__\n"
    )


def test_a_script_that_starts_itself_again_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT + "\nanyio.run(main)\n")
    told = python("script.py", cwd=tmp_path)
    assert (
        "'where' was called while its script was loaded for the tool 'where': put what the script does below `if __name__ == '__main__':`"
        in told
    )
    assert told.count("loaded as __main__") == 1


@pytest.mark.parametrize("typed", [["-c", SCRIPT], ["-"]])
def test_what_was_typed_into_an_interpreter_is_refused_when_it_is_decorated(
    tmp_path: Path, typed: list[str]
) -> None:
    assert "isolate='process' needs a function that is defined in a file" in python(
        *typed, cwd=tmp_path, text=SCRIPT
    )


def loaded(file: Path) -> ModuleType:
    """A module that sys.path does not lead to."""
    spec = importlib.util.spec_from_file_location("unreachable", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_a_module_that_no_path_leads_to_is_loaded_from_its_file(
    ctx: ToolContext[Any], tmp_path: Path
) -> None:
    (tmp_path / "file.py").write_text(SCRIPT)
    assert (
        await run(loaded(tmp_path / "file.py").where, ctx, word="hello from")
        == "hello from unreachable"
    )


async def test_a_module_that_does_not_load_there_is_told(
    ctx: ToolContext[Any], tmp_path: Path
) -> None:
    (tmp_path / "file.py").write_text(SCRIPT)
    module = loaded(tmp_path / "file.py")
    (tmp_path / "file.py").write_text("import not_there_at_all")
    with pytest.raises(
        ToolFailed,
        match="could not be loaded in its process: ModuleNotFoundError: No module named 'not_there_at_all'",
    ):
        await run(module.where, ctx, word="")


async def test_nothing_is_imported_from_the_working_directory(
    make_context: MakeContext, tmp_path: Path
) -> None:
    for name in ("sitecustomize", "usercustomize", "json", "importlib", "treadle", "msgspec"):
        (tmp_path / f"{name}.py").write_text(
            f"open({str(tmp_path / 'trapped')!r}, 'w').write({name!r})"
        )
    context = make_context(
        tmp_path, environment={"PYTHONPATH": os.pathsep, "PYTHONSTARTUP": str(tmp_path / "json.py")}
    )
    assert await run(functions.nothing, context) == "done"
    assert not (tmp_path / "trapped").exists()


async def test_it_dies_with_the_process_that_waits_for_it(tmp_path: Path, fifo: Fifo) -> None:
    (tmp_path / "script.py").write_text(
        dedent(f"""
        import anyio, sys
        sys.path.insert(0, {str(ROOT)!r})
        from pathlib import Path
        from treadle.tools.tool import ToolContext
        from tests.tools.function.isolated_functions import hangs

        ctx = ToolContext(deps=None, run_id="r", session_id=None, call_id="c", user_id=None, cwd=Path.cwd(), deadline=None, attempt=1,
            idempotency_key="k", spill=Path, environment={{"PATH": {os.environ["PATH"]!r}}})
        anyio.run(hangs.execute, ctx, {{"fifo": {str(fifo.path)!r}}})
        """)
    )
    with anyio.fail_after(30):
        async with await anyio.open_process(
            [sys.executable, "script.py"], cwd=tmp_path, stdin=None, stdout=None, stderr=None
        ) as waiting:
            assert await fifo.wait() == b"up"
            waiting.send_signal(signal.SIGKILL)
        assert await fifo.wait() == b""
