"""The command `treadle acme`."""

from __future__ import annotations

import click


@click.command()
@click.argument("place")
def acme(place: str) -> None:
    """Print the tide at PLACE."""
    click.echo(f"high at {place}")
