"""`speciate inspect`: what a pipeline knows, read from its snapshots without disturbing it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from speciate.cli.options import config_argument, json_option, overrides_option
from speciate.cli.output import print_json, print_table

if TYPE_CHECKING:
    from speciate.stages import StateStore

SHOWN = 50


@click.command(name="inspect")
@config_argument
@overrides_option
@click.option("--all", "everything", is_flag=True, help=f"List every category, not only the {SHOWN} largest.")
@json_option
def command(*, config: Path, overrides: tuple[str, ...], everything: bool, as_json: bool) -> None:
    """Show the state of a pipeline.

    CONFIG is the TOML file of the pipeline, which may be running: only its commit and its newest whole snapshot are
    read. Shown are the categories with their labels and counts, the size of the state, what was estimated from the
    support set, and how far the outputs have come since the snapshot.
    """
    found = _look(config, overrides)
    if as_json:
        print_json(found)
        return
    categories = sorted(found["categories"], key=lambda one: -one["count"])
    shown = categories if everything else categories[:SHOWN]
    rows = [
        [str(one["id"]), one["label"] or "", "known" if one["known"] else "born", f"{one['count']:,}"] for one in shown
    ]
    print_table(("category", "label", "origin", "events"), rows)
    if len(shown) < len(categories):
        click.echo(f"… and {len(categories) - len(shown):,} smaller ones (--all lists them)")
    for key, value in found.items():
        if key != "categories":
            click.echo(f"{key.replace('_', ' ')}: {_text(value)}")


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(one)}" for key, one in value.items()) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _look(path: Path, overrides: tuple[str, ...]) -> dict[str, Any]:
    from speciate.config import load, resolve
    from speciate.logs import configure
    from speciate.plugins import installed
    from speciate.restore import latest

    configure()
    store: StateStore = resolve(load(path, overrides), installed())["store"].create()
    found = latest(store)
    if found is None:
        from speciate.errors import StateMismatchError

        raise StateMismatchError(f"{store.describe()} holds no state yet: run the pipeline first")
    snapshot, commit = found
    head = snapshot.state.head
    categories = [{"id": c.id, "label": c.label, "known": c.known, "count": c.count} for c in head.categories]
    tally = {key: getattr(commit.tally, key) for key in commit.tally.__struct_fields__}
    return {
        "categories": categories,
        "known": sum(one["known"] for one in categories),
        "born": sum(not one["known"] for one in categories),
        "dimension": head.dimension,
        "density": head.density,
        "policy": head.policy,
        "options": {**head.density_options, **head.policy_options},
        "estimated": {name: _estimate(array) for name, array in head.shared.items()},
        "snapshot_sequence": snapshot.commit.sequence,
        "committed_sequence": commit.sequence,
        "outcomes": tally,
        "state_bytes": snapshot.manifest.state_bytes,
        "state_sha256": snapshot.manifest.state_sha256,
        "plugins": snapshot.manifest.plugins,
        "store": store.describe(),
    }


def _estimate(array: Any) -> Any:
    """A number as it is; of an array its shape, dtype and norm."""
    values = array.numpy()
    if values.ndim == 0:
        return values.item()
    norm = float((values.astype("float64") ** 2).sum() ** 0.5)
    return f"{array.dtype} {'×'.join(map(str, array.shape))} of norm {norm:.6g}"
