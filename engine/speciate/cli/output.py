"""What commands print: tables for people, JSON for programs."""

from collections.abc import Iterable, Sequence
from typing import Any

import click

from speciate.terminal import shown

PIPED_WIDTH = 10_000


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; on a terminal it folds to the width, in a pipe each row keeps to its lines."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    # Markup off: a cell such as `speciate[parquet]` is text, not a style.
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in table.columns:
        column.overflow = "fold"
    for row in rows:
        table.add_row(*map(shown, row))
    console.print(table)


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))
