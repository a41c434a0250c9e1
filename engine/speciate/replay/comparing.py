"""Many runs: every method on every benchmark, in every order, with every seed; in parallel, and resumable.

A comparison is a folder with one run a folder below `runs`. A run that has finished with the very recipe now asked for
is not done again, so that a comparison that was interrupted, or given one method more, does only what is missing.
"""

import itertools
import multiprocessing
import os
import re
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from speciate.catalogue import is_path, load
from speciate.describe import toml_text
from speciate.errors import ConfigError, PluginError, SpeciateError, StateError
from speciate.logs import get_logger
from speciate.plugins import installed
from speciate.replay.recorded import Recorded, load_recorded
from speciate.replay.running import ASSIGNMENTS, RUNS, load_recipe, load_run, recipe_versions, replay
from speciate.trees import apply_overrides, checked
from speciate_schemas import BenchmarkConfig, ComparisonConfig, MethodConfig, Recipe, Run, decode, encode

log = get_logger(__name__)

UNSAFE = re.compile(r"[^\w.=,+-]")
"""What does not go into the name of a folder."""
WORKER_DIED = "a worker was killed, or ran out of memory: give fewer --jobs and start the comparison again"


@dataclass(frozen=True)
class Job:
    """One run to be done, and where it is kept."""

    recipe: Recipe
    folder: Path


@dataclass(frozen=True)
class Outcome:
    """What became of a job: a run, or why there is none."""

    job: Job
    run: Run | None
    problem: str | None = None
    done_before: bool = False


def plan(config: ComparisonConfig, folder: Path, beside: Path) -> list[Job]:
    """All runs of a comparison, in a fixed order. Files of one's own are relative to the comparison's."""
    benchmarks = [load("benchmarks", _relative(one, beside), BenchmarkConfig) for one in config.benchmarks]
    methods = [load("methods", _relative(one, beside), MethodConfig) for one in config.methods]
    variants = [variant for method in methods for variant in _variants(*method, config)]
    _check_once("benchmark", [name for name, _ in benchmarks])
    _check_once("method", [name for name, _ in variants])
    _check_once("order", config.orders)
    _check_once("seed", config.seeds)
    return [
        Job(
            Recipe(
                benchmark=benchmark,
                method=method,
                benchmark_config=benchmark_config,
                method_config=method_config,
                order=order,
                seed=seed,
            ),
            folder / RUNS / benchmark / order / method / f"seed-{seed}",
        )
        for benchmark, benchmark_config in benchmarks
        for order in config.orders or (benchmark_config.order,)
        for seed in config.seeds
        for method, method_config in variants
    ]


def _check_once(what: str, given: Sequence[Any]) -> None:
    double = [one for one in given if given.count(one) > 1]
    if double:
        raise ConfigError(f"{what} {double[0]!r} is there twice: a run is kept by its name, once")


def _relative(reference: str, beside: Path) -> str:
    return str(beside / reference) if is_path(reference) else reference


def _variants(name: str, method: MethodConfig, config: ComparisonConfig) -> Iterator[tuple[str, MethodConfig]]:
    """A method with every combination of the options that are swept."""
    for values in itertools.product(*config.sweep.values()):
        changes = dict(zip(config.sweep, values, strict=True))
        tree: dict[str, Any] = decode(encode(method), dict)
        apply_overrides(tree, [f"{key}={toml_text(value)}" for key, value in changes.items()])
        suffix = ",".join(f"{key.rpartition('.')[2]}={value}" for key, value in changes.items())
        if suffix:
            tree["title"] = f"{method.title}, {suffix}"
        # The name is that of a folder, too.
        plain = UNSAFE.sub("_", suffix)
        yield f"{name}[{plain}]" if plain else name, checked(tree, MethodConfig, f"sweep of {name}")


def compare(jobs: Sequence[Job], data: Path, workers: int) -> Iterator[Outcome]:
    """Do what is not done yet, so many at a time; an outcome as soon as there is one."""
    fingerprints = _fingerprints(jobs, data)
    missing: deque[Job] = deque()
    for job in jobs:
        run = finished(job, fingerprints[job.recipe.benchmark])
        if run is None:
            missing.append(job)
        else:
            yield Outcome(job, run, done_before=True)
    while missing:
        yield from _work_off(missing, data, min(workers, len(missing)))


def _fingerprints(jobs: Sequence[Job], data: Path) -> dict[str, str]:
    """Of the data of every benchmark: all are read, so that what is missing is told before anything runs."""
    recipes = {job.recipe.benchmark: job.recipe for job in jobs}
    return {
        name: load_recorded(name, recipe.benchmark_config, data, installed()).fingerprint
        for name, recipe in recipes.items()
    }


def _work_off(missing: deque[Job], data: Path, workers: int) -> Iterator[Outcome]:
    """Do jobs until there are none, or a worker dies; the others are then left for a new pool."""
    # Started anew, a worker shares no state with this process and its threads.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, _leave_with_parent)
    running: dict[Future[Run], Job] = {}
    try:
        # As many as there are workers: what was interrupted then waits for little.
        while missing or running:
            while missing and len(running) < workers:
                future = pool.submit(work, missing[0], data, workers)
                running[future] = missing.popleft()
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield _outcome(running.pop(future), future)
    except BrokenProcessPool:
        # It may have been any of those that ran: all are told, none is tried again without end.
        for job in running.values():
            yield Outcome(job, None, WORKER_DIED)
    finally:
        for process in multiprocessing.active_children():
            process.terminate()
        pool.shutdown(cancel_futures=True)


def _outcome(job: Job, future: Future[Run]) -> Outcome:
    try:
        return Outcome(job, future.result())
    except SpeciateError as error:
        return Outcome(job, None, str(error))
    except BrokenProcessPool:
        return Outcome(job, None, WORKER_DIED)
    except Exception as error:  # one run that fails must not take the others along
        log.exception("a run failed", run=str(job.folder))
        return Outcome(job, None, f"{type(error).__name__}: {error}")


def finished(job: Job, fingerprint: str) -> Run | None:
    """The run a job asks for, if it was done before: of the same recipe, on the same data, with the same versions."""
    try:
        run = load_run(job.folder) if load_recipe(job.folder) == job.recipe else None
        whole = (job.folder / ASSIGNMENTS).is_file()
        if run is None or not whole or run.info.data_sha256 != fingerprint:
            return None
        return run if run.info.versions == recipe_versions(job.recipe, installed()) else None
    except (ConfigError, PluginError, StateError):
        return None


def work(job: Job, data: Path, workers: int) -> Run:
    """Do one job, in a process of its own."""
    recorded = _recorded(job.recipe, data)
    return replay(job.recipe, recorded, job.folder, installed(), lambda _done, _total: None, workers=workers)


def _leave_with_parent() -> None:
    """A worker whose parent was killed would wait for work for ever."""
    parent = multiprocessing.parent_process()

    def leave() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=leave, daemon=True).start()


def _recorded(recipe: Recipe, data: Path) -> Recorded:
    return _remembered(recipe.benchmark, encode(recipe.benchmark_config), data)


@lru_cache(maxsize=1)
def _remembered(name: str, config: bytes, data: Path) -> Recorded:
    """The events of the benchmark a worker is busy with: its jobs come benchmark by benchmark."""
    return load_recorded(name, decode(config, BenchmarkConfig), data, installed())
