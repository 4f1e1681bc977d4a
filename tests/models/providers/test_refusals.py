from __future__ import annotations

import json

import pytest

from treadle.errors import AgentError, ErrorKind
from treadle.models.providers.refusals import Refusals

CREDENTIAL = "the key: ANTHROPIC_API_KEY"


def refused(status: int, kind: str = "", message: str = "Because.", **headers: str) -> AgentError:
    body = json.dumps(
        {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_body"}
    ).encode()
    return Refusals(CREDENTIAL, request_id="request-id").of_answer(status, headers.get, body)


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [
        (400, "invalid_request_error", ErrorKind.INVALID),
        (401, "authentication_error", ErrorKind.AUTH),
        (402, "billing_error", ErrorKind.INVALID),
        (403, "permission_error", ErrorKind.AUTH),
        (404, "not_found_error", ErrorKind.INVALID),
        (408, "timeout_error", ErrorKind.TIMEOUT),
        (409, "conflict_error", ErrorKind.NETWORK),
        (413, "request_too_large", ErrorKind.CONTEXT_OVERFLOW),
        (422, "", ErrorKind.INVALID),
        (429, "rate_limit_error", ErrorKind.RATE_LIMIT),
        (429, "an_error_of_2027", ErrorKind.RATE_LIMIT),
        (500, "api_error", ErrorKind.NETWORK),
        (500, "overloaded_error", ErrorKind.RATE_LIMIT),
        (500, "invalid_request_error", ErrorKind.NETWORK),
        (502, "", ErrorKind.NETWORK),
        (503, "", ErrorKind.NETWORK),
        (504, "timeout_error", ErrorKind.NETWORK),
        (529, "overloaded_error", ErrorKind.RATE_LIMIT),
        (418, "", ErrorKind.INVALID),
        (999, "", ErrorKind.NETWORK),
    ],
)
def test_a_status_is_of_one_kind(status: int, kind: str, expected: ErrorKind) -> None:
    error = refused(status, kind)
    assert (error.kind, error.status, error.request_id) == (expected, status, "req_body")
    assert "Because." in error.message
    assert str(status) in error.message
    assert kind in error.message


@pytest.mark.parametrize(
    "message",
    [
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000",
        "Input is too long for requested model.",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "Invalid request: Your request exceeded model token limit: 262144",
        "Please reduce the length of the messages or completion.",
        "`inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens and 100 `max_new_tokens`",
        "'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context length is 32768 tokens and your request has 25000",
        "This model's maximum context length is 32768 tokens. However, you requested 33192 tokens (25000 in the messages, 8192 in the completion).",
    ],
)
def test_a_request_that_is_larger_than_the_window_is_told_apart(message: str) -> None:
    assert refused(400, "invalid_request_error", message).kind is ErrorKind.CONTEXT_OVERFLOW


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens: 200000 > 64000, which is the maximum allowed number of output tokens",
        "'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context length is 4096 tokens and your request has 12 input tokens",
        "This model's maximum context length is 4096 tokens. However, you requested 8204 tokens (12 in the messages, 8192 in the completion).",
    ],
)
def test_too_many_output_tokens_are_no_overflow(message: str) -> None:
    assert refused(400, "invalid_request_error", message).kind is ErrorKind.INVALID


def test_an_auth_error_says_which_key_to_check() -> None:
    assert refused(401, "authentication_error", "invalid x-api-key").message.endswith(
        f"invalid x-api-key. Check {CREDENTIAL}"
    )


def test_a_missing_model_says_what_to_check() -> None:
    assert "the model's name" in refused(404, "not_found_error", "model: claude-sonet").message


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            {
                "detail": [
                    {"loc": ["body", "messages", 0], "msg": "Field required", "type": "missing"}
                ]
            },
            "body.messages.0: Field required",
        ),
        (
            {
                "object": "error",
                "message": {
                    "detail": [{"loc": ["body", "x"], "msg": "Extra inputs are not permitted"}]
                },
            },
            "body.x: Extra inputs are not permitted",
        ),
        (
            {
                "error": {
                    "message": "Provider returned error",
                    "code": 400,
                    "metadata": {"raw": "bad tool", "provider_name": "P"},
                }
            },
            "Provider returned error: bad tool",
        ),
        ({"error": "model 'x' not found"}, "model 'x' not found"),
        ({"detail": [], "message": "No."}, "No."),
        ({"detail": [7], "message": {"detail": None}}, "a page that says"),
    ],
)
def test_what_is_wrong_is_found_in_the_bodies_of_other_servers(
    body: dict[str, object], words: str
) -> None:
    error = Refusals(CREDENTIAL).of_answer(400, {}.get, json.dumps(body).encode())
    assert error.kind is ErrorKind.INVALID
    assert words in error.message


@pytest.mark.parametrize(("status", "retried"), [(425, True), (404, False)])
def test_statuses_that_pass_are_retried(status: int, retried: bool) -> None:
    assert Refusals(CREDENTIAL).of_answer(status, {}.get, b"").retryable is retried


@pytest.mark.parametrize(
    ("status", "said", "retried"),
    [(400, "true", True), (529, "false", False), (529, "perhaps", True)],
)
def test_the_header_on_retries_counts(status: int, said: str, retried: bool) -> None:
    assert (
        Refusals(CREDENTIAL).of_answer(status, {"x-should-retry": said}.get, b"").retryable
        is retried
    )


def test_words_of_a_server_cannot_move_a_cursor_and_have_an_end() -> None:
    message = refused(400, "invalid_request_error", "\x1b[2J" + "x" * 9000).message
    assert "\x1b" not in message
    assert len(message) < 1500


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "Bad Gateway"),
        (b"upstream   connect\nerror", "'upstream connect error'"),
        (b"<!doctype html><style>p {}</style><h1>Gateway</h1><script>x()</script>", "'Gateway'"),
        (b"<html><title>502 - Nginx</title><p>more</p>", "'502 - Nginx'"),
        (b'["json", "of another kind"]', "of another kind"),
        (b"\xff\xfe", "a page that says"),
        (b"[" * 100_000, "["),
    ],
)
def test_a_body_that_is_no_api_error_is_told_in_short(body: bytes, said: str) -> None:
    error = Refusals(CREDENTIAL).of_answer(502, {}.get, body)
    assert error.kind is ErrorKind.NETWORK
    assert said in error.message
    assert len(error.message) < 400


def test_a_status_that_nobody_knows_is_told_without_words() -> None:
    assert "no reason given" in Refusals(CREDENTIAL).of_answer(999, {}.get, b"").message


def test_a_redirect_names_where_it_points() -> None:
    error = Refusals(CREDENTIAL).of_answer(
        307, {"location": "https://elsewhere.example/v1"}.get, b""
    )
    assert error.kind is ErrorKind.INVALID
    assert "'https://elsewhere.example/v1'" in error.message
    assert "nowhere" in Refusals(CREDENTIAL).of_answer(302, {}.get, b"").message
