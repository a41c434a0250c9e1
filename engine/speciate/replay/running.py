"""One run: a method fitted to a support set and led through a stream, and everything it leaves on disk.

A run is a folder: `recipe.json` says what was asked for, `assignments.npy` has one row an event, mapped and written as
the stream goes on, and `run.json` what it came to. That one is written last: a run without it never finished.
"""

import hashlib
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from speciate.config import choose
from speciate.errors import ConfigError, FeatureError, StateDamagedError
from speciate.evaluate.measure import measure
from speciate.files import make_directory, write_atomically, writing
from speciate.head import Head
from speciate.plugins import Plugins
from speciate.replay.recorded import Recorded
from speciate.replay.streams import Stream, make_stream
from speciate.surroundings import hardware, versions
from speciate_schemas import Recipe, Run, RunInfo, decode, encode

ASSIGNMENT = np.dtype(
    [
        ("event", "<i8"),
        ("category", "<i8"),
        ("birth", "?"),
        ("log_evidence", "<f8"),
        ("margin", "<f8"),
        ("probability", "<f8"),
        ("drift", "<f8"),
    ]
)
"""A row of `assignments.npy`. The event is its row in the recording; a margin or drift there is none of is NaN."""
ASSIGNMENTS, RECIPE, RUN, RUNS = "assignments.npy", "recipe.json", "run.json", "runs"

Moved = Callable[[int, int], None]
"""Told how many events are done, and of how many."""


def replay(  # all that a run is of
    recipe: Recipe, recorded: Recorded, folder: Path, plugins: Plugins, moved: Moved, *, workers: int = 1
) -> Run:
    """Run a recipe and keep it in a folder; `workers` is how many run side by side, to be told with the times."""
    config = recipe.benchmark_config
    stream = make_stream(recorded, config.support, recipe.order, config.burst, recipe.seed)
    with writing(folder):
        make_directory(folder)
        (folder / RUN).unlink(missing_ok=True)
        write_atomically(folder / RECIPE, encode(recipe, "json"))
        run = _run(recipe, recorded, stream, folder, plugins, moved, workers)
        write_atomically(folder / RUN, msgspec.json.format(encode(run, "json"), indent=1))
    return run


def load_run(folder: Path) -> Run:
    """A finished run."""
    return _load(folder / RUN, Run)  # type: ignore[no-any-return]


def load_recipe(folder: Path) -> Recipe:
    """What a run was asked for."""
    return _load(folder / RECIPE, Recipe)  # type: ignore[no-any-return]


def load_runs(folder: Path) -> list[Run]:
    """A run, or all finished runs of a comparison."""
    below = folder / RUNS if (folder / RUNS).is_dir() else folder
    folders = sorted(path.parent for path in below.rglob(RUN))
    if not folders:
        raise ConfigError(f"{folder} holds no run: name a folder that replay or compare wrote")
    return [load_run(one) for one in folders]


def recipe_versions(recipe: Recipe, plugins: Plugins) -> dict[str, str]:
    """The versions of everything a run depends on."""
    used = [("density", recipe.method_config.density), ("policy", recipe.method_config.policy)]
    encoder = recipe.benchmark_config.encoder
    used += [("encoder", encoder)] if encoder else []
    return versions([(stage, section["plugin"]) for stage, section in used], plugins)


def _load(path: Path, kind: Any) -> Any:
    try:
        return decode(path.read_bytes(), kind, "json")
    except OSError as error:
        raise ConfigError(f"{path.parent} holds no run: cannot read {path.name}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise StateDamagedError(f"{path} is not what this version writes: {error}") from error


def _run(  # noqa: PLR0917  # all of them, once
    recipe: Recipe, recorded: Recorded, stream: Stream, folder: Path, plugins: Plugins, moved: Moved, workers: int
) -> Run:
    names = np.array(recorded.names)
    start = time.perf_counter()
    head = _fit(recipe, recorded.rows(stream.support), names[recorded.classes[stream.support]], plugins)
    fit_seconds = time.perf_counter() - start
    fitted = head.state()
    estimated = {key: float(array.numpy()) for key, array in fitted.shared.items() if not array.shape}
    tuned = fitted.policy_options
    del fitted
    size = len(stream.stream)
    kept = np.lib.format.open_memmap(folder / ASSIGNMENTS, mode="w+", dtype=ASSIGNMENT, shape=(size,))
    seconds, sizes = [], []
    for place in range(0, size, recipe.batch):
        events = stream.stream[place : place + recipe.batch]
        rows = recorded.rows(events)
        start = time.perf_counter()
        try:
            decisions = head.process(rows)
        except FeatureError as error:
            raise ConfigError(f"an event between {place} and {place + len(events)} of the stream: {error}") from error
        seconds.append(time.perf_counter() - start)
        sizes.append(len(events))
        kept[place : place + len(events)] = [
            (event, one.category, one.birth, one.log_evidence, _number(one.margin), one.probability, _number(one.drift))
            for event, one in zip(recorded.events[events].tolist(), decisions, strict=True)
        ]
        moved(place + len(events), size)
    kept.flush()
    metrics = measure(
        kept["category"],
        recorded.classes[stream.stream],
        kept["birth"],
        kept["margin"],
        kept["drift"],
        known_classes=recorded.known,
        represented=np.isin(np.arange(len(recorded.names)), recorded.classes[stream.support]),
        class_names=recorded.names,
        groups=None if recorded.groups is None else (recorded.groups[0][stream.stream], recorded.groups[1]),
        seconds=np.array(seconds),
        sizes=np.array(sizes),
        fit_seconds=fit_seconds,
        batch=recipe.batch,
        held=head.size,
        head_bytes=head.nbytes,
    )
    info = _info(
        recipe,
        recorded,
        stream,
        plugins,
        workers=workers,
        tuned=tuned,
        estimated=estimated,
        data_sha256=recorded.fingerprint,
        decisions_sha256=_fingerprint(kept),
    )
    return Run(info=info, metrics=metrics)


def _fit(recipe: Recipe, features: npt.NDArray[Any], labels: npt.NDArray[Any], plugins: Plugins) -> Head:
    method = recipe.method_config
    density = choose(plugins, "density", method.density, f"method {recipe.method}: density")
    policy = choose(plugins, "policy", method.policy, f"method {recipe.method}: policy")
    head = Head(density, policy)
    head.calibrate(features, labels)
    return head


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _fingerprint(kept: npt.NDArray[Any]) -> str:
    decisions = hashlib.sha256(np.ascontiguousarray(kept["category"]).tobytes())
    decisions.update(np.ascontiguousarray(kept["birth"]).tobytes())
    return decisions.hexdigest()


def _info(recipe: Recipe, recorded: Recorded, stream: Stream, plugins: Plugins, **found: Any) -> RunInfo:
    config, method = recipe.benchmark_config, recipe.method_config
    return RunInfo(
        benchmark=recipe.benchmark,
        benchmark_title=config.title,
        method=recipe.method,
        method_title=method.title,
        order=recipe.order,
        seed=recipe.seed,
        burst=config.burst,
        density=method.density,
        policy=method.policy,
        method_about=" ".join(method.about.split()),
        support=config.support,
        support_events=len(stream.support),
        stream_events=len(stream.stream),
        known_classes=len(np.unique(recorded.classes[stream.support])),
        dimension=recorded.dimension,
        versions=recipe_versions(recipe, plugins),
        hardware=hardware(),
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        **found,
    )
