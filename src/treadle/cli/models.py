"""`treadle models`: configured providers, their availability, and each model's limits, prices and
features.

Entry points: `models`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyio
import click
import msgspec

from treadle._internal.redaction import Redactor
from treadle._internal.units import count, tokens
from treadle.cli.echo import echo
from treadle.cli.exits import failing
from treadle.cli.help import HELP
from treadle.cli.terminal import Ink, Style, put, put_json, table, width
from treadle.config import Config, load
from treadle.errors import AgentError, ErrorKind
from treadle.runtime.model_catalog import CatalogModel, ProviderAnswer, looked_up

ROWS = 20
"""Default number of models listed per provider."""
WIDE = 100
_NUMBERS = frozenset({"context", "output", "in $", "out $"})


@click.command(context_settings=HELP)
@click.argument("word", required=False)
@click.option(
    "--provider",
    metavar="PROVIDER",
    help=(
        "Only this one, with all of its models, like openai. Exits with 1 if it does not respond."
    ),
)
@click.option(
    "--offline",
    is_flag=True,
    help="Query no provider; show cached models, else built-in ones.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="As JSON: large, small, and providers with their models.",
)
def models(word: str | None, provider: str | None, offline: bool, as_json: bool) -> None:
    """List the models of every provider that has a key or needs none.

    All providers are queried once, in parallel. WORD filters models by name. Prices are USD per
    million tokens. The answers are cached, and runs use them.
    """
    with failing():
        config = load()
        for warning in config.warnings:
            echo(f"! {warning}", err=True)
        answers = anyio.run(partial(looked_up, config, provider, offline=offline))
    secrets = Redactor(config.secrets())
    for answer in answers:
        if answer.note:
            echo(f"! {answer.name}: {secrets.text(answer.note)}", err=True)
        answer.rows = [
            row for row in answer.rows if word is None or word.lower() in row.name.lower()
        ]
    if as_json:
        put_json(
            {
                "large": config.models.large,
                "small": config.models.small,
                "providers": [_object(answer) for answer in answers],
            },
            secrets,
        )
    else:
        for line in _lines(
            config, answers, word, everything=provider is not None or word is not None
        ):
            put(secrets.text(line))
    sys.exit(int(provider is not None and answers[0].error is not None))


def _object(answer: ProviderAnswer) -> dict[str, Any]:
    error = answer.error
    return {
        "name": answer.name,
        "type": answer.type or None,
        "address": answer.address,
        "key": answer.key_origin or None,
        "answers": (error is None) if answer.asked else None,
        "error": None
        if error is None
        else {"kind": error.kind.value, "message": error.message, "status": error.status},
        "models": [
            {
                "name": row.name,
                "id": row.name.partition(":")[2],
                **msgspec.structs.asdict(row.abilities),
                "input_usd": row.input_usd,
                "output_usd": row.output_usd,
            }
            for row in answer.rows
        ],
    }


# ---------------------------------------------------------------- text output


def _lines(
    config: Config, answers: list[ProviderAnswer], word: str | None, *, everything: bool
) -> Iterator[str]:
    ink = Ink()
    for size, name in (("large", config.models.large), ("small", config.models.small)):
        origin = config.origin("models", size)
        yield f"{ink(size, 'dim')}  {name}  {ink(f'({origin})', 'dim')}"
    for answer in answers:
        yield ""
        yield from _of_provider(config, answer, word, ink, everything=everything)
    if not any(answer.rows or answer.asked for answer in answers):
        yield (
            "\nNo provider is configured yet. `treadle doctor` tests the default model, `treadle "
            "demo` needs no key."
        )


def _of_provider(
    config: Config, answer: ProviderAnswer, word: str | None, ink: Ink, *, everything: bool
) -> Iterator[str]:
    if answer.error is not None:
        yield (
            f"{ink('✗', 'red')} {ink(answer.name, 'bold')}  "
            f"{answer.error.message}{advice(answer.error)}"
        )
        return
    where = " · ".join(
        filter(
            None,
            (
                answer.address or "the vendor",
                f"key from {answer.key_origin}" if answer.key_origin else "no key",
            ),
        )
    )
    holding = f" with names containing {word!r}" if word is not None else ""
    mark = ink("✓", "green") if answer.asked else ink("-", "yellow")
    yield (
        f"{mark} {ink(answer.name, 'bold')}  {where} · "
        f"{count(len(answer.rows), 'model')}{holding}{'' if answer.asked else ', not queried'}"
    )
    defaults = (config.models.large, config.models.small)
    rows = sorted(answer.rows, key=lambda row: row.name not in defaults)
    shown = rows if everything else rows[:ROWS]
    if shown:
        yield from _table(shown, defaults, ink)
    if len(rows) > len(shown):
        yield (
            f"… and {count(len(rows) - len(shown), 'more model')}: treadle models --provider "
            f"{answer.name} [WORD]"
        )
    there = {row.name for row in answer.rows}
    for name in dict.fromkeys(defaults):
        if (
            answer.asked
            and word is None
            and name.startswith(f"{answer.name}:")
            and name not in there
        ):
            yield (
                f"{ink('!', 'yellow')} {name} is not among them: check its name, or set another "
                "(models.large, models.small)"
            )


def _table(rows: list[CatalogModel], defaults: tuple[str, ...], ink: Ink) -> list[str]:
    wide = width() >= WIDE
    head = [
        "model",
        "context",
        "output",
        "in $",
        "out $",
        *(["effort", "schema"] if wide else []),
        "can",
    ]
    ids = [row.name.partition(":")[2] for row in rows]
    bold = {model_id for model_id, row in zip(ids, rows, strict=True) if row.name in defaults}

    def style(column: int, text: str) -> Style:
        return "bold" if column == 0 and text in bold else ""

    return table(
        head, [_cells(row, wide=wide) for row in rows], right=_NUMBERS, ink=ink, style=style
    )


def _cells(row: CatalogModel, *, wide: bool) -> list[str]:
    can = row.abilities
    words = {"images": can.images, "tools": can.tools, "thinks": can.reasoning}
    efforts = can.efforts or ()
    more = [
        " to ".join(dict.fromkeys((efforts[0], efforts[-1]))) if efforts else "",
        can.structured_output or "",
    ]
    return [
        row.name.partition(":")[2],
        tokens(can.context_tokens) if can.context_tokens else "",
        tokens(can.output_tokens) if can.output_tokens else "",
        _price(row.input_usd),
        _price(row.output_usd),
        *(more if wide else []),
        " ".join(word for word, is_so in words.items() if is_so),
    ]


def _price(usd: float | None) -> str:
    return "" if usd is None else f"{usd:.2f}" if usd >= 0.095 or usd == 0 else f"{usd:.3g}"


def advice(error: AgentError) -> str:
    """Return advice on how to fix a provider that does not respond."""
    if error.status == 404:
        return " (a server without a model list still works: --model PROVIDER:ID)"
    if error.kind in (ErrorKind.NETWORK, ErrorKind.TIMEOUT) and not error.status:
        return ". Check that it runs, its base_url, the network and the proxy"
    return ""
