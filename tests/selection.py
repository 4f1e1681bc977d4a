"""What tests cost: each test is marked by what it starts, and plain `pytest` leaves out what costs
most. Entry: `Selection`.

The marks are set here, by folder, file and fixture, so that a new test is marked like its
neighbours. Whoever names paths or marks runs everything they named; `--all` runs everything there
is.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]

PLACES = {
    "browser": ("tests/apps/assistant/browser",),
    # Hundreds of sentences, each with a runtime and a person of its own.
    "corpus": tuple(
        f"tests/apps/assistant/test_{name}.py" for name in ("utterances", "utterances_dev")
    ),
    "crash": ("tests/crash",),
    "peers": ("tests/peers",),
    "terminal": ("tests/tui/terminal",),
    "process": (
        # Commands of tests/cli that are forked are cheap and stay; these files start interpreters,
        # servers of MCP or workers, many for each test.
        *(
            f"tests/cli/test_{name}.py"
            for name in (
                "canary",
                "config_attacks",
                "demo",
                "ends",
                "mcp",
                "mcp_attacks",
                "subagents",
                "tasks",
                "tasks_mcp",
                "tools_accept",
            )
        ),
        *(
            f"tests/cli/test_{name}.py"
            for name in ("runs_undo", "worker", "worker_cut_off", "worker_lines")
        ),
        *(
            f"tests/service/test_{name}.py"
            for name in (
                "attempts",
                "bad_input",
                "connections",
                "http_attacks",
                "many_users",
                "open_streams",
                "replicas",
                "restarts",
                "schemathesis",
                "serving",
            )
        ),
        *(
            "tests/attacks/test_clients.py",
            "tests/attacks/test_servers.py",
            "tests/guards/test_trial.py",
            "tests/runtime/test_closing.py",
            "tests/runtime/test_submit.py",
        ),
        *(
            "tests/workers/engines",
            "tests/apps/mcp_server",
            "tests/test_examples.py",
            "tests/test_selection.py",
            "tests/events/test_follow.py",
            "tests/test_pictures.py",
            "tests/tools/builtin/test_races.py",
            "tests/tools/function/test_isolate.py",
            "tests/tools/mcp",
            "tests/apps/batch",
            "tests/journal/sqlite/test_ownership.py",
            "tests/events/telemetry/test_configured.py",
            "tests/events/telemetry/test_mcp_trace.py",
            "tests/events/telemetry/test_metrics_server.py",
            *(
                f"tests/policy/sandboxes/test_{name}.py"
                for name in (
                    "a_dead_parent",
                    "bash_confined",
                    "egress",
                    "escapes",
                    "leftovers",
                    "repositories",
                )
            ),
        ),
    ),
}
STARTING = ("chaos_server", "two_servers", "shards")
"""Fixtures, and names of stores, that start PostgreSQL."""
LEFT_OUT = ("browser", "corpus", "crash", "oracle", "peers", "postgres", "process", "terminal")
ALL = "make test-all"


@cache
def places_of(path: Path) -> frozenset[str]:
    """The marks of a file or folder."""
    name = path.relative_to(ROOT).as_posix()
    return frozenset(
        mark
        for mark, places in PLACES.items()
        if any(name == place or name.startswith(f"{place}/") for place in places)
    )


def marks_of(item: pytest.Item) -> frozenset[str]:
    """Its place's marks, and `postgres` where a fixture or a parameter says that one is started."""
    found = places_of(item.path)
    parameters = (
        item.callspec.params.values()
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
        else ()
    )
    names = (
        *getattr(item, "fixturenames", ()),
        *(value for value in parameters if isinstance(value, str) and len(value) < 40),
    )
    starts_one = (
        any(name in STARTING or "postgres" in name for name in names)
        and item.path.name != "test_docs.py"
    )
    return found | {"postgres"} if starts_one else found


class Selection:
    """What this run of pytest leaves out.

    Workers of xdist are told by the process that started them.
    """

    def __init__(self, config: pytest.Config) -> None:
        told: dict[str, Any] | None = getattr(config, "workerinput", None)
        names_nothing = (
            config.args_source is pytest.Config.ArgsSource.TESTPATHS
            and not config.option.markexpr
            and not config.option.all
        )
        self.leaves_out: bool = names_nothing if told is None else told["leaves_out"]
        self.left_out: Counter[str] = Counter()
        self.counts: bool = told is None or told["workerid"] == "gw0"
        """One worker of xdist is enough to count; the others need not import what is left out."""

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        return True if self.leaves_out and not self.counts and places_of(collection_path) else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        stay: list[pytest.Item] = []
        out: list[pytest.Item] = []
        for item in items:
            marks = marks_of(item)
            for mark in sorted(marks):
                item.add_marker(mark)
            dear = ""
            if self.leaves_out:
                marks |= {mark.name for mark in item.iter_markers()}
                dear = next((mark for mark in LEFT_OUT if mark in marks), "")
            if dear:
                self.left_out[dear] += 1
            (out if dear else stay).append(item)
        if out:
            items[:] = stay
            config.hook.pytest_deselected(items=out)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["leaves_out"] = self.leaves_out

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.left_out |= Counter(getattr(node, "workeroutput", {}).get("left_out", {}))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if (output := getattr(session.config, "workeroutput", None)) is not None:
            output["left_out"] = dict(self.left_out)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.left_out:
            named = ", ".join(f"{count:,} {mark}" for mark, count in sorted(self.left_out.items()))
            terminalreporter.write_line(
                f"{sum(self.left_out.values()):,} tests that cost more were left out: {named}"
            )
            terminalreporter.write_line(
                f"run everything with `{ALL}` or `pytest --all`, one kind with `pytest -m NAME`, one folder with `pytest PATH`"
            )
