"""Hosts of `permissions.network`: how they are written, what they match, and what a workspace may
say.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.config import load
from treadle.config.hosts import DEFAULT_HOSTS, HostList, host_entry, plain_host
from treadle.errors import AgentError


def hosts(*entries: str, **environment: str) -> HostList:
    return HostList.of(entries, environment)


@pytest.mark.parametrize(
    ("entry", "host", "port", "allowed"),
    [
        ("example.org", "example.org", 443, True),
        ("example.org", "example.org", 80, True),
        ("example.org", "example.org", 22, False),
        ("EXAMPLE.org.", "example.org", 443, True),
        ("example.org", "www.example.org", 443, False),
        ("example.org", "notexample.org", 443, False),
        ("example.org", "example.org.evil.net", 443, False),
        ("example.org:8443", "example.org", 8443, True),
        ("example.org:8443", "example.org", 443, False),
        ("*.example.org", "a.b.example.org", 443, True),
        ("*.example.org", "example.org", 443, False),
        ("*.example.org", "evilexample.org", 443, False),
        ("*.example.org:8443", "a.example.org", 8443, True),
        ("*.example.org:8443", "a.example.org", 443, False),
        ("*", "anything.net", 443, True),
        ("*", "93.184.216.34", 443, False),
        ("*", "2606:2800:220:1::1", 443, False),
        ("93.184.216.34", "93.184.216.34", 443, True),
        ("[2606:2800:220:1::0:1]", "2606:2800:220:1::1", 443, True),
        ("bücher.example", "xn--bcher-kva.example", 443, True),
    ],
)
def test_a_host_is_matched_as_a_whole_at_its_ports(
    entry: str, host: str, port: int, allowed: bool
) -> None:
    assert hosts(entry).allows(host, port) is allowed


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "127.1",
            "0x7f.1",
            "0x7f000001",
            "2130706433",
            "0177.0.0.1",
            "1.2.3.4.5",
            "a..b",
            "-a.org",
            "a b",
            "a/b",
            "user@a.org",
            "a.org:0",
            "a.org:99999",
        ),
        *(
            "[::1",
            "::1",
            "[fe80::1%eth0]",
            "a.org:",
            "http://a.org",
            "x" * 64,
            "a" * 60 + (".a" * 120),
            "a.0x",
            "a.1",
            "*.*.*.*.org",
            "a\n.org",
        ),
    ],
)
def test_an_entry_that_is_no_plain_host_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        host_entry(text)


@given(st.text(max_size=40) | st.from_regex(r"[0-9a-fx.:]{1,20}", fullmatch=True))
def test_a_plain_host_is_its_own_plain_spelling(text: str) -> None:
    try:
        plain = plain_host(text)
    except ValueError:
        return
    assert plain_host(plain) == plain == plain.lower()
    assert not set(plain) - set("abcdefghijklmnopqrstuvwxyz0123456789_.:-")


@given(
    st.from_regex(r"[a-z0-9]{1,10}(\.[a-z0-9]{1,10}){0,3}", fullmatch=True),
    st.sampled_from(["example.org", "*.example.org", "*", "a*.net"]),
)
def test_a_pattern_allows_only_what_it_spells(host: str, entry: str) -> None:
    from fnmatch import fnmatchcase

    try:
        plain = plain_host(host)
    except ValueError:
        return
    assert not hosts(entry).allows(plain, 443) or fnmatchcase(plain, entry)


def test_default_stands_for_the_public_indexes_and_those_of_the_environment() -> None:
    every = hosts(
        "default",
        PIP_INDEX_URL="https://u:p@index.example.org/simple",
        GOPROXY="https://go.example.org,direct",
        UV_INDEX="mine=http://uv.example.org:8080/",
    )
    assert all(
        every.allows(name, 443) for name in (*DEFAULT_HOSTS, "index.example.org", "go.example.org")
    )
    assert every.allows("uv.example.org", 8080)
    assert not every.allows("direct", 443)
    assert not hosts("pypi.org", PIP_INDEX_URL="https://index.example.org/simple").allows(
        "index.example.org", 443
    )


@pytest.mark.parametrize(
    "variable",
    [
        "https://[::1/simple",
        "file:///srv/index",
        "nonsense",
        "https://",
        "https://127.1/simple",
        "https://a.org:x/",
    ],
)
def test_a_variable_that_names_no_host_adds_none(variable: str) -> None:
    assert hosts("default", PIP_INDEX_URL=variable) == hosts("default")


# ---------------------------------------------------------------- as a setting


def loaded(tmp_path: Path, own: str, workspace: str) -> tuple[object, str]:
    """The setting that counts, and what was warned of."""
    home, project = tmp_path / "home", tmp_path / "project"
    for folder, text in ((home / ".treadle", own), (project / ".treadle", workspace)):
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text(f"permissions: {{network: {text}}}\n" if text else "")
    (project / ".git").mkdir()
    config = load({"HOME": str(home)}, cwd=project, trusted=True)
    return config.permissions.network, "\n".join(config.warnings)


@pytest.mark.parametrize(
    ("own", "workspace", "counts"),
    [
        ("", "none", "none"),
        ("", "[pypi.org]", ("pypi.org",)),
        ("open", "[example.org]", ("example.org",)),
        ("open", "open", "open"),
        (
            "['*.example.org']",
            "[a.example.org, b.example.org:443]",
            ("a.example.org", "b.example.org:443"),
        ),
        ("['*.example.org', default]", "['*.example.org']", ("*.example.org",)),
    ],
)
def test_a_workspace_may_tighten_the_network(
    tmp_path: Path, own: str, workspace: str, counts: object
) -> None:
    assert loaded(tmp_path, own, workspace) == (counts, "")


@pytest.mark.parametrize(
    ("own", "workspace"),
    [
        ("", "open"),
        ("", "[evil.example]"),
        ("", "[pypi.org, evil.example]"),
        ("", "['*']"),
        ("none", "[pypi.org]"),
        ("none", "open"),
        ("[example.org]", "['*.org']"),
        ("['*.example.org']", "['a.*.example.org']"),
        ("[example.org]", "['example.org:22']"),
        ("['example.org:443']", "[example.org]"),
        ("[example.org]", "default"),
    ],
)
def test_a_workspace_may_not_loosen_the_network(tmp_path: Path, own: str, workspace: str) -> None:
    counts, warned = loaded(tmp_path, own, workspace)
    assert counts == loaded(tmp_path / "alone", own, "")[0]
    assert "permissions.network is ignored: a workspace may only tighten it" in warned


@pytest.mark.parametrize(
    "value",
    [
        "http://example.org/",
        "127.1",
        "''",
        "[]",
        "5",
        "[5]",
        "[example.org, '']",
        "{a: b}",
        "true",
        "'a,,b'",
    ],
)
def test_what_is_no_setting_is_refused_with_its_line(tmp_path: Path, value: str) -> None:
    with pytest.raises(AgentError, match=r"config\.yaml:1: permissions\.network"):
        loaded(tmp_path, value, "")
