"""Rules as text, and what they match: for commands, paths, hosts and tools."""

from __future__ import annotations

import shlex

import pytest

from treadle.config.rule import BadRule, parse_rule
from treadle.config.rules import Rules

HOME, PLACE = "/home/ada", "/shop/place"


@pytest.mark.parametrize(
    ("text", "about", "words", "any_more", "pattern"),
    [
        ("git status", "command", ("git", "status"), False, ""),
        ("  npm *  ", "command", ("npm",), True, ""),
        ("npm run '*'", "command", ("npm", "run"), True, ""),
        ("bash( git push )", "command", ("git", "push"), False, ""),
        ("git commit -m 'a b'", "command", ("git", "commit", "-m", "a b"), False, ""),
        ("read(docs/**)", "read", (), False, "docs/**"),
        ("write( a b/c )", "write", (), False, "a b/c"),
        ("edit(src)", "write", (), False, "src"),
        ("fetch(*.example.org)", "host", (), False, "*.example.org"),
        ("fetch([::1]:8080)", "host", (), False, "[::1]:8080"),
        ("tool(github_*)", "tool", (), False, "github_*"),
        ("read(a/**/b/**/c/**)", "read", (), False, "a/**/b/**/c/**"),
        ("read(*a*b*)", "read", (), False, "*a*b*"),
        ("read(a(b)c)", "read", (), False, "a(b)c"),
    ],
)
def test_a_rule_is_read(
    text: str, about: str, words: tuple[str, ...], any_more: bool, pattern: str
) -> None:
    rule = parse_rule(text)
    assert (rule.text, rule.about, rule.words, rule.any_more, rule.pattern) == (
        text.strip(),
        about,
        words,
        any_more,
        pattern,
    )


LIKE = "like git status"
NAME = "with a name in the parentheses"
PROGRAM = "that begins with the name of a program$"
DEEP = "with a path in the parentheses that has at most three"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        *[(text, LIKE) for text in ("", "  ", "a" * 1_001, "ls \x1b", "ls\nrm")],
        *[
            (text, r"with a pattern in the parentheses of (read|bash)\(…\)")
            for text in ("read()", "bash(  )")
        ],
        ("look(x)", r"with one of bash, read, write, edit, fetch, tool before the parenthesis"),
        *[(text, NAME) for text in ("fetch(a b)", "fetch(http://x)", "tool(a/b)", "tool(a b)")],
        *[(text, DEEP) for text in ("read(**/**/**/**/x)", "write(****)", "edit(a/*b*c*d*)")],
        ("git 'push", "with balanced quotes"),
        *[(text, PROGRAM) for text in ("-x ls", "'' ls", "''", "'' *")],
        *[
            (f"ls {strange}", f"for a single command, without '\\{strange[0]}")
            for strange in (";", "&", "|x", "<", ">x", "(", ")", "$x", "`x`")
        ],
        *[
            (text, "that begins with the name of a program, not with a pattern")
            for text in ("*", "g*t", "g?t push", "* *")
        ],
    ],
)
def test_what_is_no_rule_is_told_what_a_rule_is(text: str, says: str) -> None:
    with pytest.raises(BadRule, match=says):
        parse_rule(text)
    with pytest.raises(BadRule) as error:
        Rules.read(deny=["ls", text])
    assert error.value.text == text


def test_a_rule_may_be_long_and_a_strange_word_of_it_is_shown_in_part() -> None:
    assert parse_rule("a" * 1_000).words == ("a" * 1_000,)
    with pytest.raises(BadRule, match=r"'aaaaaaaaaaaaaaaaaaaa'$"):
        parse_rule(f"ls {'a' * 100};")


# ---------------------------------------------------------------- paths


PATHS: list[tuple[str, list[str], list[str]]] = [
    (
        "docs",
        ["/shop/place/docs", "/shop/place/docs/a", "/shop/place/docs/a/b\nc"],
        ["/shop/place/docsx", "/shop/place/a/docs", "/shop/place", "/docs"],
    ),
    ("./docs", ["/shop/place/docs/a"], ["/docs"]),
    (".", ["/shop/place", "/shop/place/a"], ["/shop/places"]),
    ("docs/**", ["/shop/place/docs", "/shop/place/docs/a/b"], ["/shop/place/docsx"]),
    (
        "a/**/z",
        ["/shop/place/a/z", "/shop/place/a/b/c/z", "/shop/place/a/b/z/y"],
        ["/shop/place/a/bz", "/shop/place/z"],
    ),
    (
        "**/*.py",
        ["/shop/place/x.py", "/shop/place/a/b/x.py", "/shop/place/.py"],
        ["/shop/place/xpy", "/shop/place/x.pyc"],
    ),
    ("a*b", ["/shop/place/ab", "/shop/place/axxb"], ["/shop/place/a/b", "/shop/place/abc"]),
    ("a?b", ["/shop/place/axb"], ["/shop/place/ab", "/shop/place/a/b", "/shop/place/axxb"]),
    ("a.b+c", ["/shop/place/a.b+c"], ["/shop/place/axb+c", "/shop/place/a.bbc"]),
    ("/etc//x/./y", ["/etc/x/y", "/etc/x/y/z"], ["/etc/x", "/shop/place/etc/x/y"]),
    ("/**", ["/x", "/shop/place/x", "/"], []),
    ("~/notes", ["/home/ada/notes", "/home/ada/notes/x"], ["/shop/place/~/notes", "/home/ada"]),
    ("~", ["/home/ada", "/home/ada/x"], ["/home/adam", "/shop/place/~"]),
    ("~x", ["/shop/place/~x"], ["/home/adax", "/home/ada/x"]),
]


@pytest.mark.parametrize(("pattern", "yes", "no"), PATHS)
def test_a_rule_for_paths_matches_them_and_what_lies_below(
    pattern: str, yes: list[str], no: list[str]
) -> None:
    rules = Rules.read(deny=[f"read({pattern})"])

    def matched(path: str) -> bool:
        return rules.of_path(rules.deny, "read", [path], PLACE, HOME) is not None

    assert [path for path in yes if not matched(path)] == []
    assert [path for path in no if matched(path)] == []
    assert rules.of_path(rules.deny, "write", yes, PLACE, HOME) is None
    assert rules.of_path(rules.deny, "read", iter(["/nowhere", *yes]), PLACE, HOME) is rules.deny[0]


def test_case_counts_only_for_what_allows() -> None:
    rules = Rules.read(allow=["read(Docs)"], ask=["read(Docs)"], deny=["write(Docs)"])
    upper, lower = ["/shop/place/Docs/x"], ["/shop/place/docs/X"]
    assert rules.of_path(rules.allow, "read", upper, PLACE, HOME) is not None
    assert rules.of_path(rules.allow, "read", lower, PLACE, HOME) is None
    assert rules.of_path(rules.deny, "write", lower, PLACE, HOME) is not None
    asking = Rules.read(ask=["read(Docs)"])
    assert asking.of_path(asking.ask, "read", lower, PLACE, HOME) is not None


def test_the_first_rule_that_matches_is_told_whichever_path_it_matches() -> None:
    rules = Rules.read(deny=["read(a)", "write(b)", "read(b)", "read(**)"])
    assert (
        rules.of_path(rules.deny, "read", ["/shop/place/c", "/shop/place/b"], PLACE, HOME)
        is rules.deny[2]
    )
    assert rules.of_path(rules.deny, "read", ["/shop/place/b"], "/elsewhere", HOME) is None


# ---------------------------------------------------------------- hosts and tools


def test_tools_are_matched_by_their_whole_name_without_regard_to_case() -> None:
    rule = parse_rule("tool(GitHub_*.x)")
    assert [
        rule.is_of_tool(name)
        for name in ("github_a.x", "GITHUB_.x", "github_a.xy", "agithub_a.x", "github_axx")
    ] == [True, True, False, False, False]
    assert [
        parse_rule(text).is_of_tool("npm")
        for text in ("npm", "npm *", "npm test", "NPM", "read(npm)", "tool(npm)", "fetch(npm)")
    ] == [*(True, False, False, False, False, True, False)]


# ---------------------------------------------------------------- commands


MEANT = [
    (
        "curl",
        ["curl", "curl x", "/usr/bin/curl", "CURL.exe -s x", "./curl/"],
        ["curlx", "xcurl", "wget curl", "curl.exec"],
    ),
    (
        "git push",
        [
            "git push",
            "git -C x push",
            "git -c a=b push origin",
            "git --no-pager push",
            "git -x push",
        ],
        ["git commit push", "git pus", "git", "git a b push"],
    ),
    (
        "git push --force",
        ["git push -f", "git -f push x", "git push x --forc", "git push -vf", "git push --force=x"],
        ["git push", "git push --f", "git push -v"],
    ),
    (
        "rm -rf",
        ["rm -rf x", "rm -r -f x", "rm -fR x", "rm x --recursive --force", "rm -fvr x"],
        ["rm -r x", "rm -f", "rm x", "rm rf"],
    ),
    ("cp -r", ["cp -a x", "cp -R x", "cp --archive x", "cp --recursive x y"], ["cp x", "cp -p x"]),
    ("mv -f", ["mv --force x"], ["mv -r x"]),
    ("chmod -R", ["chmod --recursive x"], ["chmod -r x"]),
    ("chown -R", ["chown --recursive x"], ["chown x"]),
    ("kill -s", ["kill --signal KILL 1", "kill --signal=KILL 1", "kill -s 9 1"], ["kill 1"]),
    (
        "docker rm -f",
        ["docker rm --force x", "docker -H x rm -f y"],
        ["docker rm x", "docker ps rm -f"],
    ),
    (
        "find -delete",
        ["find . -delete", "find -delete"],
        ["find . -d -e -l -t", "find . -name delete"],
    ),
    ("java -jar", ["java -jar x"], ["java -j -a -r", "java -raj"]),
    ("go -race", ["go test -race"], ["go test -rac -e"]),
    ("tar -xf", ["tar -x -f a", "tar -fx a"], ["tar -x a"]),
    ("x --level=3", ["x --level=3"], ["x --level=4", "x --level"]),
    ("x --level", ["x --level=4", "x --level 4"], ["x --levels"]),
    (
        "x a b",
        ["x a b", "x -o v a b c", "x a -o b", "x a -o v b", "x a - b"][:4],
        ["x b a", "x a", "x a c b", "x a - b", "x v a b"],
    ),
    ("x -", ["x -", "x -v -"], ["x", "x a -"]),
    ("x --", ["x --", "x -v -- a", "x a --"], ["x"]),
    (
        "terraform -destroy",
        ["terraform apply -destroy"],
        ["terraform -desotry", "terraform destroy"],
    ),
    ("openssl -text", ["openssl x509 -text"], ["openssl -texd -x"]),
]


@pytest.mark.parametrize(("rule", "yes", "no"), MEANT, ids=[rule for rule, _, _ in MEANT])
def test_a_command_is_denied_and_asked_about_in_whatever_spelling(
    rule: str, yes: list[str], no: list[str]
) -> None:
    rules = Rules.read(deny=["read(x)", rule], ask=["tool(x)", rule])
    for say, expected in ((rules.denying, rules.deny[1]), (rules.asking, rules.ask[1])):
        assert [text for text in yes if say(shlex.split(text)) is not expected] == []
        assert [text for text in no if say(shlex.split(text)) is not None] == []
        assert say([]) is None


def test_a_command_is_allowed_word_for_word_by_the_rule_that_says_the_most() -> None:
    rules = Rules.read(
        allow=["read(npm)", "npm", "npm run build", "npm run", "npm test *", "tool(npm)"]
    )

    def said(text: str) -> str | None:
        found = rules.allowing(text.split())
        return None if found is None else found.text

    assert [
        said(text)
        for text in (
            "npm",
            "npm run build x",
            "npm run x",
            "npm test a",
            "npm -s run",
            "npmx",
            "/bin/npm",
            "NPM",
        )
    ] == [*("npm", "npm run build", "npm run", "npm test *", "npm", None, None, None)]
    assert Rules.read(allow=["a *", "a b"]).allowing(["a", "b"]) == parse_rule("a *")


def test_what_is_allowed_for_a_session_is_added_to_what_was_said() -> None:
    rules = Rules.read(allow=["a"], ask=["b"], deny=["c"]).also_allowing("d", "e")
    assert (
        [r.text for r in rules.allow],
        [r.text for r in rules.ask],
        [r.text for r in rules.deny],
    ) == (["a", "d", "e"], ["b"], ["c"])
