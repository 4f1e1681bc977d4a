"""Trust in a project: bound to what its files hold, void as soon as one is not what was looked at,
and never more than it says.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.projects import ProjectPlace
from treadle.config import Config, load
from treadle.config.places import Project, project_of
from treadle.config.trust import FILES_MAX, TrustState, survey, trust_of
from treadle.config.trust_store import revoke, trusted
from treadle.errors import AgentError

BRINGS = "agents: [theirs.agents]\nmcp_servers: {x: {command: [serve]}}\n"


class Place(ProjectPlace):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.says("AGENTS.md", "Use tabs.")
        self.says(".treadle/config.yaml", BRINGS)

    def load(self) -> Config:
        return load({"HOME": str(self.own.parent)}, cwd=self.here)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_what_nobody_trusted_brings_nothing(place: Place) -> None:
    config = place.load()
    assert (config.agents, config.mcp_servers) == ((), {})
    assert [warning.split(": ")[1] for warning in config.warnings] == [
        "agents is ignored",
        "mcp_servers.x.command is ignored",
    ]


def test_what_was_looked_at_counts(place: Place) -> None:
    place.trust()
    config = place.load()
    assert (config.agents, config.mcp_servers["x"].command, config.warnings) == (
        ("theirs.agents",),
        ("serve",),
        (),
    )


def changed(place: Place) -> None:
    place.says(".treadle/config.yaml", BRINGS.replace("[serve]", "[steal]"))


def gone(place: Place) -> None:
    (place.root / "AGENTS.md").unlink()


def new_beside_what_runs(place: Place) -> None:
    place.says("src/AGENTS.md", "Obey.")


def new_configuration(place: Place) -> None:
    place.says("src/web/.treadle/config.yaml", "mcp_servers: {y: {command: [y]}}\n")


def new_skill(place: Place) -> None:
    place.says(".treadle/skills/a/SKILL.md", "---\nname: a\n---\n")


def other_script(place: Place) -> None:
    place.says(".treadle/skills/s/run.sh", "other")


@pytest.mark.parametrize(
    ("happens", "told"),
    [
        (changed, "'.treadle/config.yaml' has changed"),
        (gone, "'AGENTS.md' is gone"),
        (new_beside_what_runs, "'src/AGENTS.md' is new"),
        (new_configuration, "'src/web/.treadle/config.yaml' is new"),
        (new_skill, "'.treadle/skills/a/SKILL.md' is new"),
        (other_script, "'.treadle/skills/s/run.sh' has changed"),
    ],
)
def test_trust_is_void_as_soon_as_a_file_is_not_what_was_looked_at(
    place: Place, happens: Callable[[Place], None], told: str
) -> None:
    place.says(".treadle/skills/s/run.sh", "one")
    place.trust()
    happens(place)
    config = place.load()
    assert (config.agents, config.mcp_servers) == ((), {})
    (void,) = [warning for warning in config.warnings if "no longer trusted" in warning]
    assert (
        void
        == f"{place.root} is no longer trusted: {told}. None of its configuration is used; review it, then run: treadle trust {place.root}"
    )
    place.trust()
    assert place.trusted().standing is TrustState.HOLDS


def test_trust_holds_again_where_the_file_is_again_what_it_was(place: Place) -> None:
    place.trust()
    changed(place)
    place.says(".treadle/config.yaml", BRINGS)
    assert place.trusted().standing is TrustState.HOLDS


def test_a_file_that_changes_between_the_look_and_its_use_is_not_admitted(place: Place) -> None:
    place.trust()
    asked = place.trusted()
    path = place.root / "AGENTS.md"
    assert asked.admits(path, b"Use tabs.")
    assert not asked.admits(path, b"Use force.")
    assert not asked.admits(place.root / "src" / "AGENTS.md", b"Use tabs.")


def test_what_is_trusted_grants_nothing_that_only_the_user_grants(place: Place) -> None:
    place.says(
        ".treadle/config.yaml",
        f"{BRINGS}permissions: {{allow: ['*']}}\ndefaults: {{sandbox: 'off'}}\njournal: 'memory:'\nproviders: {{anthropic: {{base_url: 'http://e'}}}}\n",
    )
    place.trust()
    config = place.load()
    assert config.agents == ("theirs.agents",)
    assert (
        config.permissions.allow,
        config.defaults.sandbox,
        config.journal,
        config.providers,
    ) == ((), "auto", None, {})
    assert len(config.warnings) == 4


def test_what_comes_later_says_so_where_it_is_trusted(place: Place) -> None:
    place.says(".treadle/config.yaml", "hooks: {start: x}\n")
    assert (
        "hooks is ignored: a workspace that is not trusted may not set it"
        in place.load().warnings[0]
    )
    place.trust()
    assert place.load().warnings == (
        f"{place.root}/.treadle/config.yaml:1: hooks is ignored: this version does not support it",
    )


def test_nested_files_were_looked_at_too(place: Place) -> None:
    place.says("docs/deep/AGENTS.md", "Short sentences.")
    place.trust()
    deep = project_of(place.root / "docs" / "deep")
    assert trust_of(place.own, deep).standing is TrustState.HOLDS


def test_a_project_inside_has_a_trust_of_its_own(place: Place) -> None:
    (place.root / "cloned" / ".git").mkdir(parents=True)
    place.says("cloned/AGENTS.md", "Obey.")
    place.trust()
    assert "cloned/AGENTS.md" not in place.trusted().files
    assert trust_of(place.own, project_of(place.root / "cloned")).standing is TrustState.UNKNOWN


def test_without_git_only_the_folder_itself_is_looked_at(place: Place) -> None:
    (place.root / ".git").rmdir()
    place.says("src/AGENTS.md", "No.")
    project = Project(place.root, place.root)
    assert set(survey(project, place.own)) == {"AGENTS.md", ".treadle/config.yaml"}


@pytest.mark.parametrize(
    "name", ["node_modules/left/AGENTS.md", ".venv/lib/AGENTS.md", "vendor/x/AGENTS.md"]
)
def test_what_packages_bring_is_not_looked_into_and_counts_as_new(place: Place, name: str) -> None:
    place.trust()
    place.says(name, "Obey.")
    assert place.trusted().standing is TrustState.HOLDS
    inside = project_of((place.root / name).parent)
    assert trust_of(place.own, inside).changes == (f"{name!r} is new",)


def test_a_link_that_leaves_the_project_is_no_file_of_it(place: Place, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.md"
    elsewhere.write_text("mine")
    (place.root / "src" / "AGENTS.md").symlink_to(elsewhere)
    (place.here / ".treadle").symlink_to(tmp_path)
    place.trust()
    assert set(place.trusted().files) == {"AGENTS.md", ".treadle/config.yaml"}
    elsewhere.write_text("theirs")
    assert place.trusted().standing is TrustState.HOLDS


def test_a_link_inside_the_project_is_bound_to_what_it_shows(place: Place) -> None:
    (place.root / "src" / "AGENTS.md").symlink_to("../notes.md")
    place.says("notes.md", "one")
    place.trust()
    assert place.trusted().standing is TrustState.HOLDS
    place.says("notes.md", "two")
    assert place.trusted().changes == ("'src/AGENTS.md' has changed",)


def test_what_is_no_file_cannot_block_and_does_not_count(place: Place) -> None:
    os.mkfifo(place.here / "AGENTS.md")
    place.trust()
    assert set(place.trusted().files) == {"AGENTS.md", ".treadle/config.yaml"}
    (place.root / "AGENTS.md").unlink()
    os.mkfifo(place.root / "AGENTS.md")
    assert place.trusted().changes == ("'AGENTS.md' is gone",)


def test_more_than_anybody_can_have_looked_at_cannot_be_trusted(place: Place) -> None:
    for i in range(FILES_MAX):
        place.says(f".treadle/skills/s/{i}", "")
    with pytest.raises(AgentError, match="too much to trust"):
        survey(place.project, place.own)


def test_treadles_own_folder_is_no_part_of_a_project(place: Place) -> None:
    own = place.root / ".treadle"
    assert set(survey(place.project, own)) == {"AGENTS.md"}


def test_a_name_that_is_no_text_can_be_stored(place: Place) -> None:
    name = os.fsdecode(b"caf\xe9")
    (place.root / name).mkdir()
    place.says(f"{name}/AGENTS.md", "Bonjour.")
    place.trust()
    assert trust_of(place.own, project_of(place.root / name)).standing is TrustState.HOLDS


# ---------------------------------------------------------------- the store


def test_the_store_is_for_its_owner_alone(place: Place) -> None:
    place.trust()
    assert stat.S_IMODE((place.own / "trust.json").stat().st_mode) == 0o600
    assert not [
        path for path in place.own.iterdir() if path.name not in ("trust.json", "trust.json.lock")
    ]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 2, "folders": {}}', '{"version": 1}', "[" * 100_000]
)
def test_a_store_that_cannot_be_read_trusts_nothing_and_is_not_written_over(
    place: Place, text: str
) -> None:
    place.trust()
    (place.own / "trust.json").write_text(text)
    config = place.load()
    assert config.agents == ()
    assert "trust.json is" in config.warnings[0]
    with pytest.raises(AgentError, match=r"trust\.json: is"):
        place.trust()
    assert (place.own / "trust.json").read_text() == text


def test_a_store_that_others_may_write_to_trusts_nothing(place: Place) -> None:
    place.trust()
    (place.own / "trust.json").chmod(0o666)
    assert place.trusted().standing is TrustState.VOID
    assert "is writable by others" in place.trusted().changes[0]


def test_trust_can_be_taken_back(place: Place) -> None:
    place.trust()
    assert revoke(place.own, place.root)
    assert not revoke(place.own, place.root)
    assert place.trusted().standing is TrustState.UNKNOWN


def test_two_processes_that_trust_at_once_lose_nothing(place: Place, tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from treadle.config.places import Project; from treadle.config.trust_store import trust\n"
        "for i in range(20): trust(Path(sys.argv[1]), Project(Path(f'/{sys.argv[2]}{i}'), Path('/')), {})"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", program, str(place.own), name]) for name in "abc"
    ]
    assert [process.wait(30) for process in started] == [0, 0, 0]
    assert len(trusted(place.own)) == 60
