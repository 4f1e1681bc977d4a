"""YAML with places: what is read, what is refused, and edits that change one value and nothing
else.
"""

from __future__ import annotations

import math
import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from treadle.config.document import NODES_MAX, Plain, parse
from treadle.config.editing import edited, written
from treadle.config.file import Broken


def plain(text: str) -> Plain:
    root = parse(text).root
    return root.plain() if root else None


def test_values_know_their_lines() -> None:
    root = parse("# top\na: 1\n\nb:\n  - x\n  - {c: 2}\n").root
    assert root is not None
    assert isinstance(root.value, dict)
    a, b = root.value["a"], root.value["b"]
    assert (a.key.line, a.node.line, b.key.line, b.node.line) == (2, 2, 4, 5)
    assert isinstance(b.node.value, tuple)
    assert [item.line for item in b.node.value] == [5, 6]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 12", 12),
        ("a: -1", -1),
        ("a: 1_000_000", 1_000_000),
        ("a: 0.5", 0.5),
        ("a: 1e3", 1000.0),
        ("a: true", True),
        ("a: False", False),
        ("a: null", None),
        ("a: ~", None),
        ("a:", None),
        ("a: ''", ""),
        ('a: "12"', "12"),
        ("a: '12'", "12"),
        ("a: |\n  12\n", "12\n"),
        ("a: off", "off"),
        ("a: no", "no"),
        ("a: 0x10", "0x10"),
        ("a: 12:30", "12:30"),
        ("a: 2026-11-20", "2026-11-20"),
        ("a: .nan", ".nan"),
        ("a: 1234567890123456789012", 1234567890123456789012.0),
        ("a: anthropic:x", "anthropic:x"),
        ("a: &n [1]\nb: *n", [1]),
    ],
)
def test_plain_values_mean_what_yaml_1_2_says(text: str, value: Plain) -> None:
    got = plain(text)
    assert isinstance(got, dict)
    assert got["a"] == value
    assert type(got["a"]) is type(value)


def test_a_huge_exponent_is_infinite_and_a_text_of_comments_says_nothing() -> None:
    assert plain("a: 1e999") == {"a": math.inf}
    assert plain("# nothing\n\n") is None
    assert plain("") is None


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("defaults: {max_tokens: [1}\n", 1, "YAML"),
        ("a: 1\nb: 'x", 2, "YAML"),
        ("a: 1\n\tb: 2", 2, "YAML"),
        ("a: b: c", 1, "YAML"),
        ("%YAML 3.0\n---\na: 1", 1, "YAML"),
        ("a: 1\nb: !!python/object/apply:os.system [x]", 2, "tag"),
        ("a: !!str 1", 1, "tag"),
        ("a: ! 1", 1, "tag"),
        ("!!set {a}", 1, "tag"),
        ("a: 1\n? [b]\n: 1", 2, "key"),
        ("? !!str b\n: 1", 1, "key"),
        ("a: 1\n*a : 1", 2, "YAML|key"),
        ("a: *b", 1, "alias|YAML"),
        ("a: &x [*x]", 1, "alias"),
        ("---\na: 1\n---\nb: 2", 4, "second document"),
        ("- " * 13 + "x", 1, "deeper"),
        ("[" * 100_000, 1, "deeper"),
        ("a: \x00", 1, "YAML"),
    ],
)
def test_what_cannot_be_read_says_its_line(text: str, line: int, what: str) -> None:
    with pytest.raises(Broken) as e:
        parse(text)
    assert e.value.line == line
    assert re.search(what, e.value.text)


def test_aliases_cannot_explode() -> None:
    rows = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    rows += [
        f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]"
        for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    with pytest.raises(Broken, match=str(NODES_MAX)) as e:
        parse("\n".join(rows))
    assert e.value.line < 6


def test_the_number_of_values_is_bounded() -> None:
    with pytest.raises(Broken, match=str(NODES_MAX)):
        parse("[" + "x, " * NODES_MAX + "]")


def test_duplicate_keys_are_reported_and_the_first_counts() -> None:
    document = parse("a: 1\nb: {c: 1, c: 2}\na: 3\n")
    assert [tuple(d) for d in document.duplicates] == [(2, "c", 2), (3, "a", 1)]
    assert document.root is not None
    assert document.root.plain() == {"a": 1, "b": {"c": 1}}


def test_the_library_without_its_c_parser_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: &n {b: [1, 'x']}\nc: |\n  text\n\nd:\n  - e: null # why\nf: *n\n"
    fast = parse(text)
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert parse(text) == fast
    with pytest.raises(Broken) as e:
        parse("a: 1\nb: [1}\n")
    assert e.value.line == 2


# ---------------------------------------------------------------- edits

FILE = """\
# mine
models: {large: "anthropic:claude-opus-5-5"}   # the big one

defaults:
  # few
  max_tokens: 100   # enough
  mode: ask
permissions:
  allow:
    - git status   # looks only
    - npm test
  deny: ["rm -rf"]
providers:
  anthropic:
    preamble: |
      Two
      lines.

    api_key: 'sk-old'
limits:
empty: {}
# the end
"""


@pytest.mark.parametrize(
    ("path", "value", "old", "new"),
    [
        ("defaults.max_tokens", 5, "max_tokens: 100   # enough", "max_tokens: 5   # enough"),
        ("defaults.mode", "plan", "mode: ask", "mode: plan"),
        (
            "models.large",
            "anthropic:x",
            '{large: "anthropic:claude-opus-5-5"}   #',
            '{large: "anthropic:x"}   #',
        ),
        (
            "models.small",
            "off",
            '"anthropic:claude-opus-5-5"}',
            '"anthropic:claude-opus-5-5", small: "off"}',
        ),
        ("defaults.effort", "low", "  mode: ask\n", "  mode: ask\n  effort: low\n"),
        (
            "permissions.allow",
            ["ls", "git log"],
            "allow:\n    - git status   # looks only\n    - npm test\n",
            'allow: [ls, "git log"]\n',
        ),
        ("permissions.deny", [], 'deny: ["rm -rf"]', "deny: []"),
        ("permissions.ask", ["x"], '  deny: ["rm -rf"]\n', '  deny: ["rm -rf"]\n  ask: [x]\n'),
        ("providers.anthropic.api_key", "sk-new", "'sk-old'", "sk-new"),
        (
            "providers.anthropic.preamble",
            "One\nline",
            "|\n      Two\n      lines.\n",
            '"One\\nline"\n',
        ),
        (
            "providers.local.type",
            "openai-chat",
            "    api_key: 'sk-old'\n",
            "    api_key: 'sk-old'\n  local:\n    type: openai-chat\n",
        ),
        ("limits.turns", 30, "limits:\n", "limits: {turns: 30}\n"),
        ("empty.a.b", None, "empty: {}", "empty: {a: {b: null}}"),
        ("agents", ["my.agents"], "empty: {}\n", 'empty: {}\nagents: ["my.agents"]\n'),
        ("service.limits.runs", 2, "empty: {}\n", "empty: {}\nservice:\n  limits:\n    runs: 2\n"),
    ],
)
def test_an_edit_changes_one_place(path: str, value: Plain, old: str, new: str) -> None:
    assert FILE.count(old) == 1
    assert edited(FILE, tuple(path.split(".")), value) == FILE.replace(old, new)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("", "a:\n  b: 1\n"),
        ("# only a comment", "# only a comment\na:\n  b: 1\n"),
        ("---\n", "---\na:\n  b: 1\n"),
        ("null\n", None),
        ("{}  # none\n", "{a: {b: 1}}  # none\n"),
        ("{c: 2}", "{c: 2, a: {b: 1}}"),
        ("{c: 2,\n}\n", "{c: 2, a: {b: 1}\n}\n"),
        ("c: 2", "c: 2\na:\n  b: 1\n"),
        ("c: 2\r\na:\r\n  d: 1\r\n", "c: 2\r\na:\r\n  d: 1\r\n  b: 1\r\n"),
        ("a: {d: 1,\n  # why\n}\n", None),
        ("{a}", "{a: {b: 1}}"),
        ('{"a":2}', '{"a":{b: 1}}'),
        ("c: &n {d: 1}\na: *n\n", None),
        ("a: &n {b: 2}\nc: *n\n", None),
        ("a: &n {b: &m 2}\nc: *m\n", None),
        ("- 1\n", None),
        ("just text", None),
        ("a: 1\na: 2\n", None),
        ("c: |\n  text", None),
    ],
)
def test_an_edit_of_an_odd_file_is_right_or_refused(text: str, result: str | None) -> None:
    if result is None:
        with pytest.raises(Broken, match=r"by hand|mapping"):
            edited(text, ("a", "b"), 1)
    else:
        assert edited(text, ("a", "b"), 1) == result


NAMES = st.sampled_from(["a", "b", "yes", "1", "x y", "é", "on", "null", "#", "- ", "a:b"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1000, 1000)
    | st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(NAMES, VALUES, min_size=1, max_size=4),
    st.lists(NAMES, min_size=1, max_size=3),
    VALUES,
    st.booleans(),
    st.booleans(),
)
def test_any_value_can_be_set_and_nothing_else_changes(
    data: dict[str, Plain], path: list[str], value: Plain, block: bool, unicode: bool
) -> None:
    text = yaml.safe_dump(
        data, default_flow_style=None if block else True, allow_unicode=unicode, sort_keys=False
    )
    if plain(text) != data:
        return
    expected = before = plain(text)
    assert isinstance(expected, dict)
    new = plain(edited(text, tuple(path), value))
    here: Plain = new
    for name in path:
        assert isinstance(here, dict)
        here = here[name]
    assert here == value
    assert isinstance(new, dict)
    assert isinstance(before, dict)
    assert {k: v for k, v in new.items() if k != path[0]} == {
        k: v for k, v in before.items() if k != path[0]
    }


@given(VALUES)
def test_what_is_written_reads_back(value: Plain) -> None:
    assert plain(f"a: {written(value)}") == {"a": value}
