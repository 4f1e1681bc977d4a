"""`treadle config show | path | check | set`: shows and checks settings and changes the user's own
file.

Precedence, trust and keys are defined in treadle.config. Entry points: `config`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from treadle._internal.redaction import Redactor, Secret
from treadle.cli.echo import echo
from treadle.cli.exits import CommandFailed, failing
from treadle.cli.help import HELP
from treadle.config import ConfigFile, Layers, config_files, home, load, project_of, trust_of
from treadle.config.changing import change
from treadle.config.file import SIZE_MAX_BYTES, Broken
from treadle.config.keys import KeySpec, find_key, read_value, refusal
from treadle.config.readers import Wrong

if TYPE_CHECKING:
    from treadle.config.document import Plain

folder = click.option(
    "--cwd",
    type=click.Path(path_type=Path),
    metavar="DIR",
    default=".",
    help="Directory whose project files are used. Default: the working directory.",
)


@click.group(context_settings=HELP)
def config() -> None:
    """Show, check and set settings.

    Later wins: defaults, ~/.treadle/config.yaml, the project's .treadle/config.yaml, environment,
    options.
    """


@config.command(context_settings=HELP)
@click.option("--json", "as_json", is_flag=True, help="As JSON: key -> value, source, name, line.")
@folder
def show(as_json: bool, cwd: Path) -> None:
    """Show every setting and its origin. API keys are never shown."""
    with failing():
        loaded = load(cwd=cwd)
    _warn(loaded.warnings)
    rows = loaded.rows()
    if as_json:
        table = {
            r.key: {
                "value": r.value,
                "source": r.origin.source,
                "name": r.origin.name or None,
                "line": r.origin.line,
            }
            for r in rows
        }
        echo(json.dumps(table, indent=2, ensure_ascii=False))
        return
    texts = [
        (
            (
                f"{r.key}: "
                f"{r.value if isinstance(r.value, str) else json.dumps(r.value, ensure_ascii=False)}"  # noqa: E501
            ),
            r.origin,
        )
        for r in rows
    ]
    width = min(max(len(text) for text, _ in texts), 60)
    for text, origin in texts:
        echo(f"{text:<{width}}  # {origin}")


@config.command(context_settings=HELP)
@folder
def path(cwd: Path) -> None:
    """List the configuration files in the order in which they are read, including those that do not
    exist.
    """
    with failing():
        files = config_files(os.environ, cwd)
    for file in files:
        echo(
            f"{file.path}  ({'found' if file.path.exists() else 'not found'}, "
            f"{'project' if file.root else 'your own'})"
        )


@config.command(context_settings=HELP)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@folder
def check(file: Path | None, cwd: Path) -> None:
    """Check FILE, or everything that a run would read. Exits with 2 if there are problems."""
    with failing():
        files = config_files(os.environ, cwd)
    if file is not None:
        if not file.exists():
            raise CommandFailed(f"{str(file)!r} does not exist")
        files = [
            next(
                (f for f in files if f.path.exists() and f.path.samefile(file)),
                ConfigFile(file.absolute()),
            )
        ]
    with failing():
        layers = Layers(os.environ, trust=trust_of(home(os.environ), project_of(cwd)))
    for each in files:
        layers.add_file(each)
    with failing():
        checked = layers.finish({})
    _warn(checked.warnings)
    there = [str(f.path) for f in files if f.path.exists()]
    echo(f"ok: {', '.join(there) or 'no file, only defaults and the environment'}")


@config.command("set", context_settings=HELP)
@click.argument("key")
@click.argument("value")
def set_(key: str, value: str) -> None:
    """Set KEY in your own file, for example: limits.turns 30. Comments and order are kept.

    If VALUE is -, it is read from standard input, which keeps an API key out of the shell's
    history. Write a list as '["a", "b"]'.
    """
    with failing():
        file = home(os.environ) / "config.yaml"
    names = tuple(key.split("."))
    try:
        found = find_key(names)
    except LookupError as e:
        raise CommandFailed(str(e.args[0])) from None
    if value == "-":
        value = _from_input(key)
    # Python decodes bytes that are not text as surrogates.
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise CommandFailed(f"{key}: the value is not UTF-8 text")
    try:
        plain, read = _meant(found, value)
    except Wrong as e:
        raise CommandFailed(refusal(names, e, "" if found.secret else repr(value))) from None
    with failing():
        change(file, [(names, plain)])
    shown = (
        str(read)
        if isinstance(read, Secret)
        else Redactor(()).text(json.dumps(plain, ensure_ascii=False))
    )
    echo(f"{key}: {shown}  # {file}")


def _from_input(key: str) -> str:
    if sys.stdin.isatty():
        return click.prompt(key, hide_input=True, err=True)
    return sys.stdin.read(SIZE_MAX_BYTES).strip()


def _meant(key: KeySpec, value: str) -> tuple[Plain, object]:
    """Return the typed text and its value: plain text if the key accepts that,
    else YAML. Raises Wrong.
    """
    try:
        return value, read_value(key, value)
    except Wrong as e:
        wrong = e
    from treadle.config.document import parse  # noqa: PLC0415  only for values that are not plain text

    try:
        root = parse(value).root
    except Broken:
        raise wrong from None
    if root is None:
        raise wrong
    plain = root.plain()
    return plain, None if plain is None and key.nullable else read_value(key, plain)


def _warn(warnings: tuple[str, ...]) -> None:
    for warning in warnings:
        echo(f"! {warning}", err=True)
