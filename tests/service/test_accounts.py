"""Accounts and logins over HTTP."""

from __future__ import annotations

import re
import time
import unicodedata
from pathlib import Path

import jwt
import pytest
from sqlmodel import Session, select

from tests.service.at_hand import PASSWORD, AtHand, bearer, later, opened, problem
from treadle.service import passwords
from treadle.service.accounts import HIDDEN, account_name
from treadle.service.database.tables import Account

COOKIE = "treadle_refresh"


async def register(hand: AtHand, name: str, password: str = PASSWORD):
    return await hand.http.post("/auth/register", json={"username": name, "password": password})


async def sign_in(hand: AtHand, name: str, password: str = PASSWORD):
    return await hand.http.post("/auth/login", json={"username": name, "password": password})


async def is_signed_in(hand: AtHand, headers: dict[str, str]) -> bool:
    return (await hand.http.get("/tasks", headers=headers)).status_code == 200


async def test_whoever_registers_is_signed_in_and_can_sign_in_again(tmp_path: Path) -> None:
    async with opened(tmp_path) as hand:
        made = await register(hand, "ada")
        assert made.status_code == 201
        assert made.json() == {
            "access_token": made.json()["access_token"],
            "token_type": "bearer",
            "expires_in": 900,
        }
        assert await is_signed_in(hand, bearer(made.json()["access_token"]))
        again = await sign_in(hand, "ADA")
        assert again.status_code == 200
        assert await is_signed_in(hand, bearer(again.json()["access_token"]))


async def test_the_longer_token_is_in_a_cookie_that_scripts_and_other_sites_do_not_get(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as hand:
        cookie = (await register(hand, "ada")).headers["set-cookie"]
    name, *attributes = cookie.split("; ")
    assert name.startswith(f"{COOKIE}=")
    assert {"HttpOnly", "SameSite=strict", "Path=/auth/"} <= set(attributes)
    async with opened(tmp_path, public_url="https://tasks.example") as hand:
        secure = (await sign_in(hand, "ada")).headers["set-cookie"]
    name, *attributes = secure.split("; ")
    assert name.startswith(f"__Host-{COOKIE}=")
    assert {"Secure", "HttpOnly", "SameSite=strict", "Path=/"} <= set(attributes)
    assert "Domain" not in secure


async def test_a_cookie_that_somebody_planted_beside_ours_signs_nobody_in(tmp_path: Path) -> None:
    """B7: another port of the same host may set one for another path."""
    async with opened(tmp_path) as hand:
        await register(hand, "mallory")
        planted = hand.http.cookies[COOKIE]
        hand.http.cookies.clear()
        await register(hand, "ada")
        own = hand.http.cookies[COOKIE]
        hand.http.cookies.clear()
        for pair in ((planted, own), (own, planted)):
            both = "; ".join(f"{COOKIE}={one}" for one in pair)
            problem(await hand.http.post("/auth/refresh", headers={"Cookie": both}), 401)
            assert (
                await hand.http.post("/auth/logout", headers={"Cookie": both})
            ).status_code == 204
        alone = await hand.http.post("/auth/refresh", headers={"Cookie": f"{COOKIE}={own}"})
        assert alone.status_code == 200


async def test_over_tls_only_the_cookie_of_this_very_host_counts(tmp_path: Path) -> None:
    async with opened(tmp_path, public_url="https://tasks.example") as hand:
        await register(hand, "ada")
        own = next(cookie.value for cookie in hand.http.cookies.jar)
        hand.http.cookies.clear()
        for name, status in ((COOKIE, 401), (f"__Host-{COOKIE}", 200)):
            cookie = {"Cookie": f"{name}={own}"}
            answer = await hand.http.post("/auth/refresh", headers=cookie)
            assert answer.status_code == status


async def test_a_name_is_taken_however_it_is_typed(tmp_path: Path) -> None:
    async with opened(tmp_path) as hand:
        assert (await register(hand, "Straße")).status_code == 201
        for same in ("straße", "STRASSE", "\uff33trasse"):
            assert "taken" in problem(await register(hand, same), 409)


@pytest.mark.parametrize(
    "name", ["", " ", "a" * 65, "a\x00b", "a\nb", "a\u202eb", "\u200b", "\ufdfa" * 10]
)
async def test_what_can_be_no_name_is_refused(tmp_path: Path, name: str) -> None:
    async with opened(tmp_path) as hand:
        problem(await register(hand, name), 422)


def test_a_name_is_the_same_after_it_was_made_one() -> None:
    for typed in ("Ada", "ß", "ﬁ", "İ", "x" * 64):
        assert (name := account_name(typed)) is not None
        assert account_name(name) == name


async def test_an_unknown_name_and_a_wrong_password_get_the_same_answer_after_the_same_work(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as hand:
        await register(hand, "ada")
        await sign_in(hand, "nobody", "the first one makes a hash")
        answers, spent = [], []
        for name in ("nobody", "ada"):
            begun = time.process_time()
            answers.append(await sign_in(hand, name, "not the password"))
            spent.append(time.process_time() - begun)
        for answer in answers:
            assert problem(answer, 401) == "The name or the password is wrong."
            assert answer.headers["www-authenticate"] == "Bearer"
        assert answers[0].content == answers[1].content
        assert min(spent) > max(spent) / 5  # without a hash it would be a fiftieth


async def test_a_refresh_whose_answer_was_lost_can_be_repeated_at_once(tmp_path: Path) -> None:
    """C12: a page that was reloaded several times in quick succession was signed out."""
    async with opened(tmp_path) as hand:

        async def refreshed(token: str) -> str | None:
            hand.http.cookies.clear()
            cookie = {"Cookie": f"{COOKIE}={token}"}
            answer = await hand.http.post("/auth/refresh", headers=cookie)
            return hand.http.cookies[COOKIE] if answer.status_code == 200 else None

        await register(hand, "ada")
        first = hand.http.cookies[COOKIE]
        second = await refreshed(first)
        assert second is not None
        assert nonce(await refreshed(first)) == nonce(second) != nonce(first)
        third = await refreshed(second)
        assert third is not None
        assert await refreshed(first) is None, "two tokens later it was copied"
        assert await refreshed(third) is None


def nonce(token: str | None) -> str:
    return jwt.decode(token or "", options={"verify_signature": False})["jti"]


async def test_a_refresh_gives_another_pair_and_a_second_use_of_the_old_one_ends_the_login(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as hand:
        await register(hand, "ada")
        old = hand.http.cookies[COOKIE]
        fresh = await hand.http.post("/auth/refresh")
        assert fresh.status_code == 200
        new = hand.http.cookies[COOKIE]
        assert new != old
        headers = bearer(fresh.json()["access_token"])
        assert await is_signed_in(hand, headers)
        hand.http.cookies.clear()
        await later(hand.service)
        for copied in (old, new):
            problem(
                await hand.http.post("/auth/refresh", headers={"Cookie": f"{COOKIE}={copied}"}), 401
            )
        assert not await is_signed_in(hand, headers)


async def test_a_made_up_refresh_token_ends_nobodys_login(tmp_path: Path) -> None:
    async with opened(tmp_path) as hand:
        headers = await hand.registered()
        for made_up in (
            "",
            "x",
            headers["Authorization"].removeprefix("Bearer "),
            hand.http.cookies[COOKIE][:-2] + "xx",
        ):
            hand.http.cookies.clear()
            problem(
                await hand.http.post("/auth/refresh", headers={"Cookie": f"{COOKIE}={made_up}"}),
                401,
            )
        assert await is_signed_in(hand, headers)


async def test_signing_out_ends_the_login_at_once_by_token_or_by_cookie(tmp_path: Path) -> None:
    async with opened(tmp_path) as hand:
        headers = await hand.registered()
        out = await hand.http.post("/auth/logout", headers=headers)
        assert (out.status_code, out.content) == (204, b"")
        assert not await is_signed_in(hand, headers)
        headers = bearer((await sign_in(hand, "ada")).json()["access_token"])
        assert (await hand.http.post("/auth/logout")).status_code == 204
        assert not await is_signed_in(hand, headers)
        assert (await hand.http.post("/auth/logout")).status_code == 204


async def test_another_password_ends_all_other_logins(tmp_path: Path) -> None:
    async with opened(tmp_path) as hand:
        elsewhere = await hand.registered()
        here = bearer((await sign_in(hand, "ada")).json()["access_token"])
        wrong = await hand.http.post(
            "/auth/password",
            headers=here,
            json={"old": "not the old one", "new": "another password"},
        )
        assert "old password" in problem(wrong, 403)
        changed = await hand.http.post(
            "/auth/password", headers=here, json={"old": PASSWORD, "new": "another password"}
        )
        assert changed.status_code == 204
        assert await is_signed_in(hand, here)
        assert not await is_signed_in(hand, elsewhere)
        assert (await sign_in(hand, "ada")).status_code == 401
        assert (await sign_in(hand, "ada", "another password")).status_code == 200


async def test_where_registration_is_closed_nobody_new_comes_in(tmp_path: Path) -> None:
    async with opened(tmp_path) as hand:
        await hand.registered()
    async with opened(tmp_path, registration="closed") as hand:
        assert "Registration is closed" in problem(await register(hand, "eve"), 403)
        assert (await sign_in(hand, "ada")).status_code == 200


async def test_tries_for_one_name_and_from_one_address_are_limited(tmp_path: Path) -> None:
    async with opened(tmp_path) as hand:
        answers = [await sign_in(hand, "ada", "a wrong password") for _ in range(11)]
        assert [answer.status_code for answer in answers] == [401] * 10 + [429]
        assert int(answers[-1].headers["retry-after"]) > 100
        answers = [await sign_in(hand, f"other{n}", "a wrong password") for n in range(11)]
        assert answers[-1].status_code == 429


async def test_a_password_is_kept_as_argon2id_and_anew_where_the_parameters_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stored(session: Session) -> str:
        return session.exec(select(Account.password_hash)).one()

    async with opened(tmp_path, costly_passwords=True) as hand:
        await hand.registered()
        before = await hand.service.database.run_unscoped(stored)
        assert before.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    monkeypatch.setattr(passwords, "MEMORY_KIB", 20_000)
    async with opened(tmp_path, costly_passwords=True) as hand:
        assert (await sign_in(hand, "ada")).status_code == 200
        assert (await hand.service.database.run_unscoped(stored)).startswith(
            "$argon2id$v=19$m=20000,t=2,p=1$"
        )
        assert (await sign_in(hand, "ada")).status_code == 200


async def test_a_password_that_is_changed_meanwhile_lets_nobody_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody with the old one is just signing in: it was right when it was looked at."""
    async with opened(tmp_path) as hand:
        ada = bearer((await register(hand, "ada")).json()["access_token"])
        looked_at = passwords.Passwords.fits
        changed: list[int] = []

        async def and_then_it_is_changed(
            self: passwords.Passwords, password: str, stored: str | None, **more: bool
        ) -> bool:
            fits = await looked_at(self, password, stored, **more)
            if not changed:
                changed.append(0)
                changed[0] = (
                    await hand.http.post(
                        "/auth/password",
                        json={"old": PASSWORD, "new": "another one altogether"},
                        headers=ada,
                    )
                ).status_code
            return fits

        monkeypatch.setattr(passwords.Passwords, "fits", and_then_it_is_changed)
        assert (await sign_in(hand, "ada")).status_code == 401
        assert changed == [204]
        assert await is_signed_in(hand, ada)
        assert (await sign_in(hand, "ada", "another one altogether")).status_code == 200


FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180f\u2065\u2800\u3164\ufe00\ufe0f\uffa0\ufff0\U000e0100\U000e01ef\U000e0fff"


@pytest.mark.parametrize("filler", [*FILLERS, "\u200b", "\ue000", "\U0010fffd", "\u1680"])
async def test_a_name_has_no_character_that_is_not_drawn(tmp_path: Path, filler: str) -> None:
    async with opened(tmp_path) as hand:
        for name in (filler, f"ad{filler}a", f"ada{filler}", 3 * filler):
            problem(
                await hand.http.post(
                    "/auth/register", json={"username": name, "password": PASSWORD}
                ),
                422,
            )
            assert account_name(name) is None or account_name(name) == "ada"


def test_no_character_of_a_kind_that_is_not_drawn_is_in_a_name() -> None:
    """By the tables of this Python, so that a list cannot lack one. Spaces fold to the usual one."""
    kinds = ("Cc", "Cf", "Co", "Zl", "Zp")
    unseen = [chr(n) for n in range(0x110000) if unicodedata.category(chr(n)) in kinds]
    assert [
        c
        for c in unseen
        if account_name(f"a{c}b") is not None or re.search(f"[{HIDDEN}]", c) is None
    ] == []
    spaces = [chr(n) for n in range(0x110000) if unicodedata.category(chr(n)) == "Zs"]
    assert {account_name(f"a{c}b") for c in spaces} == {"a b", None}
