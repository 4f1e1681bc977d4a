"""Text, names and URLs that look like secrets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle._internal.redaction import Redactor
from treadle._internal.secret_patterns import MASK, in_url, names_a_secret

CANARY = "sk-ant-api03-CANARY-9f3b2c7d1e"
LOOKS_LIKE_A_SECRET = [
    ("sk-ant-api03-abcDEF_123-456", "sk-ant-api03-abcDEF_123-456"),
    ("key sk-proj-abcdefghijklmnop1234.", "sk-proj-abcdefghijklmnop1234"),
    ("AIzaSyA-1234567890_abcdefghijklmnopqrs", "AIzaSyA-1234567890_abcdefghijklmnopqrs"),
    ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "ghp_abcdefghijklmnopqrstuvwxyz0123456789"),
    ("github_pat_11ABCDEFG0abcdefghijkl_mnopqr", "github_pat_11ABCDEFG0abcdefghijkl_mnopqr"),
    ("xoxb-123456789012-abcdefABCDEF", "xoxb-123456789012-abcdefABCDEF"),
    ("id AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefgh_-12", "eyJzdWIiOiIxIn0"),
    ("Bearer abcdefgh-canary", "abcdefgh-canary"),
    ("bearer\tABCDEFGH==", "ABCDEFGH=="),
    ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
    ('"authorization": "Token canary"', "canary"),
    ("{'Authorization': 'AWS4-HMAC-SHA256 Credential=canary, Signature=fe5f'}", "fe5f"),
    ("Proxy-Authorization: Basic Y2FuYXJ5", "Y2FuYXJ5"),
    ("x-api-key: canary", "canary"),
    ("X-Api-Key: canary\r\n", "canary"),
    ("{'x-api-key': 'canary with spaces'}", "canary with spaces"),
    ("x-goog-api-key: canary", "canary"),
    ("GET /v1/models?key=canary&alt=sse", "canary"),
    ("https://h/p?a=b&token=canary#x", "canary"),
    ("?api_key=canary", "canary"),
    ("ANTHROPIC_API_KEY=canary", "canary"),
    ("SESSION_TOKEN='canary'", "canary"),
    ("access_token=canary&x=1", "canary"),
    ('{"password":"canary"}', "canary"),
    ('{"token" : "canary", "x": 1}', "canary"),
    ("client_secret=canary", "canary"),
    ("api_key: abcdefghijklmnopqrst", "abcdefghijklmnopqrst"),
    ("postgresql://ada:canary@db:5432/x", "canary"),
    ("http://ada:ca@nary@proxy:3128", "ca@nary"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIcanary\n-----END RSA PRIVATE KEY-----", "MIIcanary"),
    ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlcanaryQ", "b3BlcanaryQ"),
]
ORDINARY = [
    "max_tokens=100 and turns: 50",
    "unknown key 'temprature' in defaults: did you mean 'temperature'?",
    "providers.anthropic.api_key must be text",
    "no API key for the provider 'anthropic'. You can:\n  set ANTHROPIC_API_KEY in the environment, or store a key: treadle config set providers.anthropic.api_key -",
    "task-force-of-the-desk-for-a-risk-free-life",
    "http://127.0.0.1:8080/v1 and https://example.com:443/a@b?x=y:z",
    "git@github.com:a/b.git and ada@example.com",
    '{"url":"http://a:80","mail":"ada@example.com"}',
    "-----BEGIN CERTIFICATE-----\nMIIabc\n-----END CERTIFICATE-----",
    "token: expected an identifier; key: a name",
]
ADVERSARIAL = [
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN " + "A " * 15,
    "authorization",
    "authorization: ",
    "bearer ",
    "bearer",
    "sk-",
    "sk-ant-",
    "AIza",
    "ghp_",
    "xoxb-",
    "eyJ",
    "eyJaaaaaaaaaa.",
    "://",
    "://a:",
    "://a:b",
    "a@",
    "?key=",
    "&",
    "x-api-key:",
    "api_key: ",
    'password" : "',
    "token=",
    "key",
    " ",
    "a",
]


@pytest.mark.parametrize(("text", "secret"), LOOKS_LIKE_A_SECRET)
def test_what_looks_like_a_credential_is_masked(text: str, secret: str) -> None:
    redactor = Redactor()
    for around in (text, f"error: {text}", f"({text})", f"one\n{text}\ntwo"):
        clean = redactor.text(around)
        assert secret not in clean
        assert MASK in clean
        assert redactor.text(clean) == clean
    assert redactor.exact(text) == text


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_messages_stay_as_they_are(text: str) -> None:
    expected = text.replace("API_KEY=…,", f"API_KEY={MASK},")
    assert Redactor([CANARY]).text(text) == expected


@given(
    st.lists(
        st.sampled_from(
            [t for t, _ in LOOKS_LIKE_A_SECRET] + [MASK, " ", "\n", "=", ":", '"', "://", "@", "a"]
        ),
        max_size=6,
    ).map("".join)
)
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = Redactor([CANARY]).text(text)
    assert Redactor([CANARY]).text(once) == once


@pytest.mark.parametrize("piece", ADVERSARIAL)
def test_a_long_text_of_anything_is_done_in_linear_time(piece: str) -> None:
    # quadratic, this would take an hour
    Redactor([CANARY]).text(piece * (250_000 // len(piece)))
    Redactor([CANARY]).text("://a:" + piece * (250_000 // len(piece)))


@pytest.mark.parametrize(
    "name",
    [
        "GITHUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "X-Api-Key",
        "Authorization",
        "Cookie",
        "PGPASSWORD",
        "key",
        "apikey",
    ],
)
def test_names_of_credentials_are_known(name: str) -> None:
    assert names_a_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "KEYBOARD",
        "MONKEY",
        "TOKENIZERS_PARALLELISM",
        "SSH_AUTH_SOCK",
        "X-Author",
        "COMPAT",
        "Content-Type",
    ],
)
def test_names_of_other_things_are_no_credentials(name: str) -> None:
    assert not names_a_secret(name)


def test_passwords_and_keys_are_found_in_urls() -> None:
    assert in_url("https://ada:pa@ss@host/x?api_key=canary&a=b#c") == ["pa@ss", "canary"]
    assert in_url("ada:pass@host") == []
