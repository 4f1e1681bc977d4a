"""Many people at once, each with a word that nobody else may ever see."""

from __future__ import annotations

from pathlib import Path

import anyio

from tests.service.at_hand import opened

PEOPLE = 20
REQUESTS = 200


async def test_two_hundred_interleaved_requests_of_twenty_people_leak_nothing(
    tmp_path: Path,
) -> None:
    limits = {"requests_per_minute": 10_000, "runs": 100}
    seen: dict[int, list[str]] = {number: [] for number in range(PEOPLE)}
    async with opened(tmp_path, limits=limits) as hand:
        people = [await hand.registered(f"person{number}") for number in range(PEOPLE)]
        conversations: dict[int, str] = {}

        async def one(number: int, turn: int) -> None:
            word = f"canary{number:02d}x"
            mine = conversations.get(number)
            body = {
                "message": (f"add {word} {turn}", "list", f"say {turn}", f"You are {word}")[
                    turn % 4
                ]
            }
            body |= {"conversation_id": mine} if mine is not None else {}
            answer = await hand.http.post("/chat", json=body, headers=people[number])
            assert answer.status_code == 200, answer.text
            conversations[number] = answer.json()["conversation_id"]
            seen[number].append(answer.text)

        for turn in range(REQUESTS // PEOPLE):
            async with anyio.create_task_group() as group:
                for number in range(PEOPLE):
                    group.start_soon(one, number, turn)
        for number, headers in enumerate(people):
            for path in (
                "/tasks",
                "/conversations",
                "/runs",
                f"/conversations/{conversations[number]}",
            ):
                seen[number].append((await hand.http.get(path, headers=headers)).text)
            for run in (await hand.http.get("/runs", headers=headers)).json():
                seen[number].append(
                    (
                        await hand.http.get(
                            f"/runs/{run['run_id']}/events",
                            headers={**headers, "Accept": "text/event-stream"},
                        )
                    ).text
                )
    for number, texts in seen.items():
        everything = "\n".join(texts)
        assert f"canary{number:02d}x" in everything
        assert not [
            other
            for other in range(PEOPLE)
            if other != number and f"canary{other:02d}x" in everything
        ]
