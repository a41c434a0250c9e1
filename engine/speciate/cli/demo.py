"""`speciate demo`: the whole engine on a small real stream, from support set to accuracy."""

import asyncio
import json
import shlex
import shutil
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from speciate.cli.options import json_option
from speciate.cli.output import print_json

if TYPE_CHECKING:
    from speciate.config import Chosen, Resolved
    from speciate.report import Report


@click.command(name="demo")
@click.option(
    "--directory",
    default="speciate-demo",
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Where to put the stream, the configuration, the assignments and the state.",
)
@json_option
def command(*, directory: Path, as_json: bool) -> None:
    """Run the whole engine on a small real stream.

    Handwritten digits come one by one: 0 to 4 are known from a support set, 5 to 9 must be discovered. Everything
    is left in the directory, so that the same stream can be run again with another configuration.
    """
    from speciate.cli.running import run_watched
    from speciate.config import load, resolve
    from speciate.errors import OutputError
    from speciate.plugins import installed

    try:
        config = _unpack(directory)
    except OSError as error:
        raise OutputError(f"cannot prepare {directory}: {error.strerror}") from error
    resolved = resolve(load(config), installed())
    known = sorted(set(asyncio.run(_truth(resolved["support"]))))
    if not as_json:
        click.echo(f"Handwritten digits: {', '.join(known)} are known, the others are to be discovered.")
    report = run_watched(resolved, fresh=True)
    found = _evaluate(resolved, report, known)
    if as_json:
        print_json(found)
        return
    for name, text in _lines(found):
        click.echo(f"{name:<18}{text}")
    shown = shlex.quote(str(config))
    click.echo(f"Try: speciate inspect {shown}, or edit it and: speciate run {shown} --fresh")
    click.echo(f"Watch it, with the extra page: speciate run {shown} --fresh --pace 30 --page")


def _unpack(directory: Path) -> Path:
    """Put the stream and the configuration where the user can see and change them."""
    data = files("speciate") / "data"
    directory.mkdir(parents=True, exist_ok=True)
    with (data / "digits.npz").open("rb") as packed, (directory / "digits.npz").open("wb") as unpacked:
        shutil.copyfileobj(packed, unpacked)
    config = directory / "demo.toml"
    # Absolute, so that the configuration works from anywhere; JSON's escapes are TOML's.
    place = json.dumps(directory.absolute().as_posix(), ensure_ascii=False)[1:-1]
    config.write_text((data / "demo.toml").read_text("utf-8").replace("@directory@", place), "utf-8")
    return config


async def _truth(chosen: "Chosen") -> list[str]:
    """The labels of a source, in order."""
    source = chosen.create()
    await source.open(None, 0)
    labels = []
    while records := await source.read(1024):
        labels += [record.event.label for record in records]
    await source.close()
    return labels


def _evaluate(resolved: "Resolved", report: "Report", known: list[str]) -> dict[str, Any]:
    from speciate.evaluate.accuracy import strict_accuracy
    from speciate_schemas import Answer, Assignment, decode

    lines = Path(report.answers).read_bytes().splitlines()
    answers = [decode(line, Answer, "json") for line in lines]
    # What was changed by hand meanwhile has answers too.
    found = [answer.category for answer in answers if isinstance(answer, Assignment)]
    truth = asyncio.run(_truth(resolved["source"]))[: len(found)]  # a demo that was stopped has answered fewer
    accuracy = strict_accuracy(found, truth, known)
    return {
        "categories": report.status.categories,
        "true_classes": len({*truth, *known}),
        "births": report.status.tally.births,
        "accuracy_all": accuracy.all,
        "accuracy_known": accuracy.known,
        "accuracy_novel": accuracy.novel,
        "events": report.status.answered,
        "events_per_second": report.status.events_per_second,
        "latency_p50_ms": report.latency_p50 * 1e3,
        "latency_p99_ms": report.latency_p99 * 1e3,
        "assignments": report.answers,
        "state": report.state,
    }


def _lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        ("categories found", f"{found['categories']} ({found['births']} born; the truth has {found['true_classes']})"),
        ("accuracy, all", f"{found['accuracy_all']:.1%}"),
        ("accuracy, known", f"{found['accuracy_known']:.1%}"),
        ("accuracy, novel", f"{found['accuracy_novel']:.1%}"),
        ("events", f"{found['events']:,} at {found['events_per_second']:,.0f} a second"),
        ("latency", f"p50 {found['latency_p50_ms']:.1f} ms, p99 {found['latency_p99_ms']:.1f} ms, read to written"),
        ("assignments", found["assignments"]),
        ("snapshot", found["state"]),
    ]
