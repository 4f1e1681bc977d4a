"""Where paths lead and what that means: one question after the other, with real folders and links."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from treadle.config.rules import Rules
from treadle.policy import paths as reaching
from treadle.policy import secrets_below
from treadle.policy.decision import CallFinding, FindingKind
from treadle.policy.paths import Reach

HOME = "/home/ada"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path.resolve() / "place"
    (place / "src/deep").mkdir(parents=True)
    (place / "src/a.py").write_text("")
    (place / "link").symlink_to("src")
    (place / "out").symlink_to(tmp_path / "outside")
    (place / "loop").symlink_to("loop")
    (tmp_path / "outside").mkdir()
    return place


def at(
    root: Path | str,
    *,
    readable: tuple[str, ...] = (),
    sealed: tuple[str, ...] = (),
    **rules: list[str],
) -> Reach:
    said = Rules.read(
        allow=rules.get("allow", ()), ask=rules.get("ask", ()), deny=rules.get("deny", ())
    )
    return Reach(str(root), HOME, said, readable, lambda: sealed)


# ---------------------------------------------------------------- where


def test_a_path_leads_somewhere_and_seems_to_lead_somewhere(root: Path) -> None:
    reach = at(root.parent / "place" / "link" / "..")
    assert reach.root == str(root)
    assert reach.places("src/./a.py") == (f"{root}/src/a.py",)
    assert reach.places("link/a.py") == (f"{root}/src/a.py", f"{root}/link/a.py")
    assert reach.places("a.py", "link") == (f"{root}/src/a.py", f"{root}/link/a.py")
    assert reach.places("/etc/../x") == ("/x",)
    assert reach.places("//x/y") == ("/x/y",)
    with pytest.raises(ValueError, match="a"):
        reach.places("a\0b")


def test_a_path_may_be_taken_by_its_letters(root: Path) -> None:
    assert at(root).places("link/a.py", follow=False) == (f"{root}/link/a.py",)
    assert at(root).write("out/x").kind is FindingKind.UNSURE
    assert at(root).write("out/x", follow=False).kind is FindingKind.EDITS
    assert at(root).write("loop", follow=False).kind is FindingKind.EDITS


def test_inside_is_the_workspace_and_what_lies_below() -> None:
    assert [
        at("/shop").is_inside(place) for place in ("/shop", "/shop/a", "/shops", "/", "/a/shop")
    ] == [True, True, False, False, False]
    assert [at("/").is_inside(place) for place in ("/", "/a", "/a/b")] == [True, True, True]


# ---------------------------------------------------------------- reading


def told(finding: CallFinding) -> tuple[FindingKind, str]:
    return finding.kind, finding.why


def test_reading_is_judged_by_rules_then_by_place_then_by_name(root: Path) -> None:
    reach = at(
        root,
        readable=("/spill",),
        deny=["read(no)"],
        ask=["read(src)"],
        allow=["read(/etc/hosts)", "read(.env)", "read(out)"],
    )
    answers = {
        "a\0b": (FindingKind.READS_BEYOND, "'a\\x00b' is not a valid path"),
        "no/x": (FindingKind.FORBIDDEN, "the rule 'read(no)' denies reading 'no/x'"),
        "link/a.py": (
            FindingKind.NEEDS_A_PERSON,
            "the rule 'read(src)' asks before 'link/a.py' is read",
        ),
        "/etc/hosts": (FindingKind.READS, ""),
        "/dev/null": (FindingKind.READS, ""),
        ".env": (FindingKind.READS, ""),
        "/spill": (FindingKind.READS, ""),
        "/spill/x": (FindingKind.READS, ""),
        "/spills/x": (FindingKind.READS_BEYOND, "'/spills/x' is outside the workspace"),
        "out/x": (FindingKind.READS_BEYOND, "'out/x' is outside the workspace"),
        "id_rsa": (FindingKind.READS_BEYOND, "'id_rsa' probably contains a secret"),
        "~/x": (FindingKind.READS_BEYOND, "'~/x' looks like a path elsewhere"),
        "a.txt": (FindingKind.READS, ""),
        ".": (FindingKind.READS, ""),
    }
    assert {path: told(reach.read(path)) for path in answers} == answers
    assert reach.read("id_rsa", names_only=True).kind is FindingKind.READS
    assert reach.read("../x", "src").kind is FindingKind.READS
    assert reach.read("../x").kind is FindingKind.READS_BEYOND


def test_a_link_named_null_is_no_null(root: Path) -> None:
    (root / "id_rsa").symlink_to("/dev/null")
    assert at(root).read("id_rsa").kind is FindingKind.READS_BEYOND


def test_a_secret_is_one_by_where_it_leads_and_by_what_it_is_called(root: Path) -> None:
    (root / "plain").symlink_to(".env")
    (root / "prod.env").symlink_to("a.txt")
    assert at(root).read("plain").why == "'plain' probably contains a secret"
    assert at(root).read("prod.env").why == "'prod.env' probably contains a secret"


@pytest.mark.parametrize("name", ["secrets", ".git", "x.key", ".claude"])
def test_what_the_workspace_is_called_says_nothing_of_what_is_in_it(
    tmp_path: Path, name: str
) -> None:
    place = tmp_path.resolve() / name
    place.mkdir()
    assert at(place).read("a.txt").kind is FindingKind.READS
    assert at(place).read(".").kind is FindingKind.READS
    assert at(place).write("a.txt").kind is FindingKind.EDITS
    assert at(place).write(".git/x").kind is FindingKind.FORBIDDEN
    assert at(place).read(f"{place}-two/.env").kind is FindingKind.READS_BEYOND
    assert at("/").read("etc/shadow").kind is FindingKind.READS_BEYOND
    assert at("/").write("/etc/passwd").kind is FindingKind.FORBIDDEN


@pytest.mark.parametrize(
    ("path", "expanded"),
    [
        *[
            (path, True)
            for path in (
                "~",
                "~/x",
                "~ada",
                "$HOME",
                "$HOME/x",
                "${x}y",
                "..\\x",
                "a\u2044..",
                "..\u2215x",
                "..\uff0f",
                "..\uff3c..",
            )
        ],
        *[(path, True) for path in ("..\u29f5x", "..\u29f8x", "..\ufe68x")],
        *[
            (path, False)
            for path in (
                "a~",
                "x/~",
                "$(x)",
                "$x.txt",
                "a$HOME",
                "../x",
                "a\\b",
                "a\u2044b",
                "$",
                "",
            )
        ],
    ],
)
def test_a_path_that_a_shell_or_another_system_takes_for_another_is_told(
    path: str, expanded: bool
) -> None:
    assert reaching.looks_expanded(path) is expanded


def test_a_long_path_is_shown_in_part(root: Path) -> None:
    assert at(root).read("/" + "a" * 79).why == f"'/{'a' * 79}' is outside the workspace"
    assert at(root).read("/" + "a" * 80).why == f"'/{'a' * 76}...' is outside the workspace"


# ---------------------------------------------------------------- reading all below


def test_below_a_folder_secrets_are_looked_for(root: Path) -> None:
    assert at(root).read_below(".") == CallFinding(FindingKind.READS)
    assert at(root).read_below("a-file") == CallFinding(FindingKind.READS)
    (root / "src/deep/.env").write_text("")
    assert told(at(root).read_below("src")) == (
        FindingKind.HELD,
        "'src/deep/.env' below it probably contains a secret",
    )
    assert at(root).read_below("deep", "src").kind is FindingKind.HELD
    (root / "src/x.pem").write_text("")
    assert at(root).read_below("src").kind is FindingKind.HELD
    assert told(at(root).read_below("out")) == told(at(root).read("out"))


def test_what_git_keeps_and_what_links_lead_to_is_not_looked_at(root: Path) -> None:
    for folder in (".git/objects", "../outside/more"):
        (root / folder).mkdir(parents=True)
        (root / folder / "x.pem").write_text("")
    (root / "src/out").symlink_to(root.parent / "outside")
    assert at(root).read_below(".") == CallFinding(FindingKind.READS)


def test_only_so_many_entries_are_looked_at(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets_below, "MAX_LOOKED_AT", 2)
    assert at(root).read_below("src") == CallFinding(FindingKind.READS)
    monkeypatch.setattr(secrets_below, "MAX_LOOKED_AT", 1)
    assert told(at(root).read_below("src")) == (
        FindingKind.HELD,
        "there are too many files below it to check for secrets",
    )
    monkeypatch.setattr(secrets_below, "MAX_LOOKED_AT", 3)
    decision = at(root)
    assert [decision.read_below(folder).kind for folder in ("src", "./src")] == [
        FindingKind.READS,
        FindingKind.HELD,
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may list everything")
def test_a_folder_that_cannot_be_listed_is_passed_over(root: Path) -> None:
    (root / "src/deep").chmod(0)
    (root / "src/z").mkdir()
    (root / "src/z/x.pem").write_text("")
    assert at(root).read_below("src").kind is FindingKind.HELD


@pytest.mark.parametrize(
    "rule",
    [
        "read(src/deep)",
        "read(src/deep/**)",
        "read(src/*.pem)",
        "read(s*/x)",
        "read(src)",
        "read(**/x)",
        "read(src/d?ep/x)",
    ],
)
def test_a_rule_about_what_lies_below_is_noticed(root: Path, rule: str) -> None:
    denied, asked = at(root, deny=[rule]).read_below("src"), at(root, ask=[rule]).read_below("src")
    assert denied.kind in (FindingKind.PARTLY_DENIED, FindingKind.FORBIDDEN)
    assert asked.kind in (FindingKind.PARTLY_ASKED, FindingKind.NEEDS_A_PERSON)
    assert (
        denied.kind is FindingKind.FORBIDDEN
        or denied.why == f"the rule {rule!r} denies reading files below 'src'"
    )


def test_a_rule_about_what_lies_below_a_place_outside_is_as_strict_as_about_the_place(
    root: Path,
) -> None:
    assert at(root, deny=["read(src/deep)"]).read_below("..").kind is FindingKind.FORBIDDEN
    assert at(root, ask=["read(src/deep)"]).read_below("..").kind is FindingKind.NEEDS_A_PERSON


@pytest.mark.parametrize(
    "rule",
    ["read(srcs)", "read(other/*.pem)", "write(src/deep)", "read(~/src)", "read(/src)", "npm test"],
)
def test_a_rule_about_another_place_is_not(root: Path, rule: str) -> None:
    assert at(root, deny=[rule], ask=[rule]).read_below("src") == CallFinding(FindingKind.READS)


def test_a_rule_about_the_home_folder_is_noticed_there() -> None:
    reach = Reach("/home", HOME, Rules.read(deny=["read(~/notes)"]))
    assert reach.read_below("ada").kind is FindingKind.PARTLY_DENIED
    assert reach.read_below("bob").kind is FindingKind.READS


# ---------------------------------------------------------------- writing


def test_writing_is_judged_by_rules_guards_and_place(root: Path) -> None:
    reach = at(
        root,
        sealed=(f"{root}/own",),
        deny=["write(no)"],
        ask=["write(ask)"],
        allow=["write(yes)", "write(CLAUDE.md)", "write(.git)", "write(loop)", "write(out)"],
    )
    later = "decides what runs here later, and cannot be changed by an agent"
    answers = {
        "a\0b": (FindingKind.UNSURE, "'a\\x00b' is not a valid path"),
        "no": (FindingKind.FORBIDDEN, "the rule 'write(no)' denies writing 'no'"),
        "own": (FindingKind.FORBIDDEN, f"'own' {later}"),
        "own/x": (FindingKind.FORBIDDEN, f"'own/x' {later}"),
        "owner": (FindingKind.EDITS, ""),
        ".git/config": (FindingKind.FORBIDDEN, f"'.git/config' {later}"),
        "ask": (FindingKind.NEEDS_A_PERSON, "the rule 'write(ask)' asks before 'ask' is written"),
        "loop": (FindingKind.UNSURE, "'loop' is a link that leads to itself"),
        "yes": (FindingKind.GRANTED, "a rule allows it"),
        "CLAUDE.md": (FindingKind.GRANTED, "a rule allows it"),
        "AGENTS.md": (
            FindingKind.NEEDS_A_PERSON,
            "'AGENTS.md' instructs agents, or runs on this machine later: a person must review each change",
        ),
        ".gitlab-ci.yml": (FindingKind.UNSURE, "'.gitlab-ci.yml' runs elsewhere later"),
        "out/x": (FindingKind.UNSURE, "'out/x' is outside the workspace"),
        "~/x": (FindingKind.UNSURE, "'~/x' looks like a path elsewhere, but would be one here"),
        "/dev/null": (FindingKind.UNSURE, "'/dev/null' is outside the workspace"),
        "src/new": (FindingKind.EDITS, ""),
    }
    assert {path: told(reach.write(path)) for path in answers} == answers
    assert reach.write("../ask", "src").kind is FindingKind.NEEDS_A_PERSON


def test_a_command_writes_no_guarded_file_at_all(root: Path) -> None:
    reach = at(
        root,
        sealed=(f"{root}/own",),
        allow=["write(yes)", "write(AGENTS.md)"],
        deny=["write(/dev/stdout)"],
    )
    use = "decides what runs here later, and cannot be changed by a command; use the write or edit tool, which shows you the change"
    answers = {
        "AGENTS.md": (FindingKind.FORBIDDEN, f"'AGENTS.md' {use}"),
        ".gitlab-ci.yml": (FindingKind.FORBIDDEN, f"'.gitlab-ci.yml' {use}"),
        "own/x": (
            FindingKind.FORBIDDEN,
            "'own/x' decides what runs here later, and cannot be changed by an agent",
        ),
        "yes": (FindingKind.PERMITTED, "a rule allows it"),
        "src/new": (FindingKind.SHELL_EDITS, "'src/new' is written"),
        "/dev/null": (FindingKind.READS, ""),
        "/dev/stderr": (FindingKind.READS, ""),
        "/dev/fd/1": (FindingKind.READS, ""),
        "/dev/fd/2": (FindingKind.READS, ""),
        "/dev/stdout": (
            FindingKind.FORBIDDEN,
            "the rule 'write(/dev/stdout)' denies writing '/dev/stdout'",
        ),
    }
    assert {path: told(reach.write(path, by_shell=True)) for path in answers} == answers
    assert at(root).write("/dev/stdout", by_shell=True).kind is FindingKind.READS


def test_of_two_places_the_strictest_guard_counts(root: Path) -> None:
    (root / ".git").mkdir()
    (root / "AGENTS.md").symlink_to(".git/x")
    (root / ".gitlab-ci.yml").symlink_to("CLAUDE.md")
    assert at(root).write("AGENTS.md").kind is FindingKind.FORBIDDEN
    assert at(root).write(".gitlab-ci.yml").kind is FindingKind.NEEDS_A_PERSON


# ---------------------------------------------------------------- what is denied


def test_a_command_that_names_a_denied_path_is_denied(root: Path) -> None:
    reach = at(root, deny=["read(src)", "write(docs)"])
    assert told(reach.denied("link/x")) == (
        FindingKind.FORBIDDEN,
        "the rule 'read(src)' denies 'link/x'",
    )
    assert told(reach.denied("docs/x")) == (
        FindingKind.FORBIDDEN,
        "the rule 'write(docs)' denies 'docs/x'",
    )
    assert reach.denied("x", "src").kind is FindingKind.FORBIDDEN
    assert reach.denied("docs/x", writes=False) == CallFinding(FindingKind.READS)
    assert reach.denied("a\0b") == CallFinding(FindingKind.READS)
    assert reach.denied("other") == CallFinding(FindingKind.READS)


def test_links_of_only_so_many_paths_are_followed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaching, "MAX_FOLLOWED", 2)
    reach = at(root, deny=["read(src)"])
    assert [reach.denied(path).kind for path in ("one", "link/two", "link/three", "src/four")] == [
        FindingKind.READS,
        FindingKind.FORBIDDEN,
        FindingKind.READS,
        FindingKind.FORBIDDEN,
    ]


@pytest.mark.parametrize(
    ("rule", "denies"),
    [
        ("read(x)", True),
        ("write(x)", True),
        ("edit(x)", True),
        ("curl", False),
        ("fetch(x)", False),
        ("tool(x)", False),
    ],
)
def test_whether_any_path_is_denied_is_known(rule: str, denies: bool) -> None:
    assert at("/shop", deny=["ls", rule]).denies_paths is denies
    assert not at("/shop", allow=[rule], ask=[rule]).denies_paths
