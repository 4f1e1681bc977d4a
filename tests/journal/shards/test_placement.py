"""Which shard an id belongs in, and what a file of shards may say."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from tests.journal.runs import refuses, started
from treadle.errors import AgentError
from treadle.journal import open_journal
from treadle.journal.shards.placement import (
    Generation,
    homes,
    is_generated,
    key_of,
    key_of_run,
    read_list,
)
from treadle.types import new_id

GOOD = "version: 1\nshards:\n  a: postgresql://h/a\n  b: postgresql://h/b\n"
KEYS = [f"k{number}" for number in range(3000)]


def placed(*generations: Generation) -> dict[str, str]:
    return {key: homes(generations, key)[0] for key in KEYS}


def test_each_shard_gets_its_share() -> None:
    counts = Counter(placed(Generation(version=1, names=("a", "b", "c"))).values())
    assert all(900 < count < 1100 for count in counts.values()), counts


def test_a_new_shard_takes_keys_and_no_others_move() -> None:
    before, after = (
        Generation(version=1, names=("a", "b")),
        Generation(version=2, names=("a", "b", "c")),
    )
    old, new = placed(before), placed(before, after)
    assert {new[key] for key in KEYS if old[key] != new[key]} == {"c"}
    assert all(homes([before, after], key)[-1] == old[key] for key in KEYS)


def test_a_draining_shard_gets_no_new_keys() -> None:
    found = placed(Generation(version=1, names=("a", "b", "c"), draining=("b",)))
    assert {*found.values()} == {"a", "c"}


def test_ids_with_one_tag_belong_together() -> None:
    assert key_of("{acme}support-1") == key_of("order {acme} 7") == "acme"
    assert [key_of(name) for name in ("plain", "{}", "{a", "a}{")] == ["plain", "{}", "{a", "a}{"]


def test_a_run_outside_of_a_session_belongs_where_its_user_does() -> None:
    of_ada = msgspec.structs.replace(started("run_1"), user_id="ada")
    assert (key_of_run(of_ada), key_of_run(started("run_1"))) == ("ada", "run_1")
    assert key_of_run(msgspec.structs.replace(of_ada, run_id="{acme}1")) == "acme"


def test_generated_ids_are_recognized() -> None:
    assert is_generated(new_id("run"))
    assert is_generated(new_id("session"))
    assert not any(map(is_generated, ("run_1", "order-17", new_id("run") + "0", "")))


def test_the_order_of_the_file_does_not_matter(tmp_path: Path) -> None:
    file = tmp_path / "shards.yaml"
    file.write_text(GOOD)
    first = read_list(file).generation
    file.write_text("shards:\n  b: postgresql://h/b\n  a: postgresql://h/a\nversion: 1\n")
    assert read_list(file).generation == first


@pytest.mark.parametrize(
    ("text", "reason"),
    {
        "": "is not a list of shards",
        "[]": "is not a list of shards",
        "shards: {a: postgresql://h/a}": "`version` must be",
        GOOD.replace("version: 1", "version: no"): "`version` must be",
        GOOD.replace("version: 1", "version: 0"): "`version` must be",
        GOOD + "weights: {a: 2}": "'weights' is unknown",
        GOOD + "draining: [c]": "`draining` must be",
        GOOD + "draining: [a, b]": "must not be draining",
        GOOD + "  a: postgresql://h/c\n": ":5: the key 'a' is given twice",
        GOOD.replace("  a:", "  A B:"): "'A B' is not a name of a shard",
        GOOD.replace("postgresql://h/a", "sqlite:///hidden"): "shard 'a' needs a URL",
        GOOD.replace(
            "postgresql://h/a", "postgresql://u:hidden@h:x/a"
        ): "shard 'a' of .*: this is not a PostgreSQL URL",
        "version: 1\nshards: {}": "1 to 64 shards",
        "version: [": ":2: invalid YAML",
    }.items(),
)
def test_a_file_that_lists_no_shards_is_refused_with_its_reason_and_no_url(
    tmp_path: Path, text: str, reason: str
) -> None:
    file = tmp_path / "shards.yaml"
    file.write_text(text)
    with pytest.raises(AgentError, match=reason) as caught:
        open_journal(f"postgresql+shards:///{file}")
    assert (caught.value.kind, "hidden" in caught.value.message) == ("invalid", False)


def test_a_file_that_others_can_change_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "shards.yaml"
    file.write_text(GOOD)
    file.chmod(0o666)
    with refuses("invalid", "writable by others"):
        open_journal(f"postgresql+shards:///{file}")
    with refuses("invalid", "does not exist"):
        open_journal(f"postgresql+shards:///{tmp_path}/none.yaml")
