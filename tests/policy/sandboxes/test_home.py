"""Where programs keep credentials below a home folder: each place is a secret to file tools, and
hidden from confined commands.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.policy.sandboxes.conftest import BWRAP, Weakened, needs_bubblewrap
from treadle.policy.guarded_paths import is_secret
from treadle.policy.sandboxes.bubblewrap import Bubblewrap
from treadle.policy.sandboxes.hidden import HiddenPlaces
from treadle.policy.secret_places import ONLY_IN_HOME, PLACES
from treadle.tools.confinement import CommandRoom

_NAMES = """
credentials .secrets secrets.json my.pem id_rsa id_ed25519 deploy.key wallet.kdbx .env .config/x/auth.json .config/some-tool/credentials.json
.config/some-tool/secrets.yaml .config/deploy.pem
"""
NAMES = _NAMES.split()
"""Known by name alone."""
_IN_VIEW = """
.gitconfig .bashrc .profile .config/nvim/init.lua .config/git/config .config/git/ignore .cargo/bin/cargo .cargo/config.toml .docker/cli-plugins/x
.local/share/applications/x.desktop .local/bin/tool .cache/pip/x .cache/huggingface/hub/model .rustup/settings.toml .nvm/nvm.sh .gem/specs .pyenv/version
src/main.py .claude/CLAUDE.md .codex/config.toml .gradle/wrapper/x .m2/repository/x .circleci/config.yml .netlify/state.json .vscode/settings.json
"""
IN_VIEW = _IN_VIEW.split()


def made(home: Path, *places: str) -> None:
    for place in places:
        path = Path(os.path.normpath(home / place.replace("*", "x")))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("CANARY")


@pytest.mark.parametrize("place", PLACES)
def test_each_place_is_a_secret_wherever_it_lies(place: str) -> None:
    named = place.replace("*", "x")
    assert is_secret(f"/home/ada/{named}")
    assert is_secret(f"/srv/{named}/below.py")
    assert is_secret(f"/home/ada/{named.upper()}")


def hidden(home: Path, environment: Mapping[str, str] | None = None) -> set[str]:
    return {
        str(place.path.relative_to(home))
        for place in HiddenPlaces(home, None, environment or {}).look()
        if place.path.is_relative_to(home)
    }


@pytest.mark.parametrize("place", [*PLACES, *ONLY_IN_HOME, *NAMES])
def test_each_place_is_hidden(tmp_path: Path, place: str) -> None:
    made(tmp_path, place, *IN_VIEW)
    (found,) = hidden(tmp_path)
    assert os.path.normpath(place.replace("*", "x")).startswith(found)


def test_the_rest_of_the_home_is_in_view(tmp_path: Path) -> None:
    made(tmp_path, *IN_VIEW)
    assert hidden(tmp_path) == set()


def test_a_place_that_comes_up_later_is_hidden_from_the_next_command(tmp_path: Path) -> None:
    made(tmp_path, *IN_VIEW)
    places = HiddenPlaces(tmp_path, None, {})
    before = len(places.look())
    for n, place in enumerate(
        (".kaggle/kaggle.json", ".config/gh/hosts.yml", ".cache/huggingface/token", ".npmrc"), 1
    ):
        made(tmp_path, place)
        assert len(places.look()) == before + n, place


@pytest.mark.parametrize(
    ("variable", "value", "file"),
    [
        ("XDG_CONFIG_HOME", "elsewhere", "elsewhere/gh/hosts.yml"),
        ("XDG_DATA_HOME", "elsewhere", "elsewhere/keyrings/login.keyring"),
        ("XDG_CACHE_HOME", "elsewhere", "elsewhere/huggingface/token"),
        ("GNUPGHOME", "elsewhere", "elsewhere/private-keys-v1.d/x"),
        ("CARGO_HOME", "elsewhere", "elsewhere/credentials.toml"),
        ("HF_HOME", "elsewhere", "elsewhere/token"),
        ("KUBECONFIG", "one.yaml:two.yaml", "two.yaml"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "one.json", "one.json"),
    ],
)
def test_a_variable_that_puts_a_place_elsewhere_is_followed(
    tmp_path: Path, variable: str, value: str, file: str
) -> None:
    made(tmp_path, file)
    (found,) = hidden(
        tmp_path, {variable: ":".join(str(tmp_path / part) for part in value.split(":"))}
    )
    assert file.startswith(found)


@needs_bubblewrap
def test_a_confined_command_reads_none_of_them(base: Path, sandbox: Weakened) -> None:
    """All at once, in a real sandbox: what is known of each place by itself stands above."""
    home, work = base / "home", base / "work"
    work.mkdir()
    (base / "scratch").mkdir()
    files = [place.replace("*", "x") for place in (*PLACES, *ONLY_IN_HOME)]
    topmost = [file for file in files if not any(file.startswith(f"{other}/") for other in files)]
    made(home, *topmost, *IN_VIEW)
    room = CommandRoom(
        workspace=work, scratch=lambda: base / "scratch", quarantine=lambda: base, is_read_only=True
    )
    cage = Bubblewrap(BWRAP, home=home).make_cage(
        ["/bin/bash", "-c", f"grep -rl CANARY {home} 2>/dev/null"],
        work,
        {"PATH": os.environ["PATH"]},
        room,
    )
    _, said = cage.run_blocking(30)
    assert {line.removeprefix(f"{home}/") for line in said.split()} == set(IN_VIEW)
