"""`speciate fit`: from labelled images or features to a model that `speciate run` takes."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from speciate.cli.options import json_option
from speciate.cli.output import print_json
from speciate.cli.signals import SHOW_CURSOR

if TYPE_CHECKING:
    from speciate_schemas import BundleManifest, FitConfig


@click.command(name="fit")
@click.argument("inputs", metavar="[INPUT]...", nargs=-1)
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="The model to write, a folder; must not exist."
)
@click.option("--plugin", metavar="NAME", help="The source plugin, where the inputs' file names do not tell it.")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="A TOML file with [encoder], [training], [density], [policy] and, without INPUTs, [support].",
)
@click.option("--frozen", is_flag=True, help="Use the encoder as it is: do not train it.")
@click.option(
    "-s",
    "--set",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    help="Override one key, such as training.epochs=20, encoder.model=resnet18 or policy.alpha=1e-9. The value is "
    "TOML; what is not is taken as text. May be given more than once.",
)
@json_option
def command(
    *,
    inputs: tuple[str, ...],
    out: Path,
    plugin: str | None,
    config: Path | None,
    frozen: bool,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """Fit a model to labelled images or features.

    INPUT is a folder with a folder of images per class, an event log, or a file of features: the support set, whose
    classes become the known categories. Images train the last block of the encoder first; features need no encoder.
    A fit that was stopped, with Ctrl-C or in any other way, goes on where it was when it is called again.
    """
    manifest = asyncio.run(_fit(_config(inputs, plugin, config, overrides, frozen=frozen), out))
    if as_json:
        import msgspec

        print_json(msgspec.to_builtins(manifest))
        return
    for name, text in _lines(manifest):
        click.echo(f"{name:<18}{text}")
    click.echo(f"wrote {out}; try: speciate run {out} INPUT")


async def _fit(config: "FitConfig", out: Path) -> "BundleManifest":
    from speciate.cli.bars import counting
    from speciate.fitting import fit
    from speciate.plugins import installed

    # The work is on threads, which nobody can interrupt; what they have kept so far survives any end.
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, _leave)
    return await fit(config, out, installed(), counting)


def _leave() -> None:
    end = SHOW_CURSOR if sys.stderr.isatty() else ""
    os.write(sys.stderr.fileno(), f"{end}speciate: interrupted; the same command goes on from here\n".encode())
    os._exit(128 + signal.SIGINT)


def _config(
    inputs: tuple[str, ...], plugin: str | None, config: Path | None, overrides: tuple[str, ...], *, frozen: bool
) -> "FitConfig":
    from importlib.resources import files

    from speciate.cli.inputs import source_section
    from speciate.trees import apply_overrides, checked, read_toml
    from speciate_schemas import FitConfig

    if config is None:
        tree = read_toml(files("speciate") / "data/fit.toml", "the defaults", "fit.toml")
        _make_room(tree, overrides)
    else:
        tree = read_toml(config, f"the configuration {config}", str(config))
    if inputs or plugin or "support" not in tree:
        tree["support"] = source_section(inputs, plugin)
    apply_overrides(tree, overrides)
    if frozen:
        tree.pop("training", None)
    return checked(tree, FitConfig, "the fit" if config is None else str(config))


def _make_room(tree: dict[str, Any], overrides: tuple[str, ...]) -> None:
    """Another plugin than the default one has options of its own, and may not be one that can be trained."""
    from copy import deepcopy

    from speciate.trees import apply_overrides

    wanted = deepcopy(tree)
    apply_overrides(wanted, overrides)
    named = {name: section["plugin"] for name, section in tree.items() if "plugin" in section}
    changed = [name for name, plugin in named.items() if _plugin(wanted[name]) != plugin]
    for name in [*changed, *(["training"] if "encoder" in changed else [])]:
        tree.pop(name, None)


def _plugin(section: Any) -> Any:
    return section.get("plugin") if isinstance(section, dict) else None


def _lines(manifest: "BundleManifest") -> list[tuple[str, str]]:
    card = manifest.card
    lines = [("support set", f"{card.support.events:,} events of {len(card.support.classes):,} classes")]
    if manifest.encoder is not None:
        lines.append(("encoder", f"{manifest.encoder['plugin']}, {manifest.dimension:,} features"))
    if card.training is not None:
        report = card.training
        kept = next((one for one in report.epochs if one.number == report.kept_epoch), None)
        right = (
            "" if kept is None or kept.held_accuracy is None else f", {kept.held_accuracy:.1%} of those held out right"
        )
        early = ", stopped early" if report.stopped_early else ""
        lines.append(("training", f"{len(report.epochs)} epochs{early}, epoch {report.kept_epoch} kept{right}"))
    for key, value in card.estimated.items():
        before = card.estimated_frozen.get(key)
        lines.append((key, f"{value:.4g}" + ("" if before is None else f" (before training {before:.4g})")))
    lines.append(("policy", ", ".join(f"{key} = {value}" for key, value in card.policy.items())))
    lines.append(("seconds", f"{card.seconds:.1f}"))
    return lines
