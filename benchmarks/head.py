"""The exact head beside the paper's form and beside the limit, in one run.

    python benchmarks/head.py                     K = 77, 200, 1 000 at d = 768
    python benchmarks/head.py --categories 10000  one size
    python benchmarks/head.py --long 1000000      a long stream: rate, memory, rows and wear as it goes on

The limit is the pass over the rows: a bare product of all rows with one vector (GEMV), and with a batch of them (GEMM).
The paper's form keeps a d × d inverse a category, scores with einsum and refactors the chosen category after each
event; its memory is what those arrays take. All are measured alternately, with one BLAS thread, and medians are
compared, because machines are shared: a ratio within one run means something, a time alone does not.
"""

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_solve, cholesky
from scipy.special import gammaln

from speciate.head import Head
from speciate_plugins.densities.full import FullDensity

DIMENSION = 768
EVENTS_EACH = 30
BATCH = 64


class PaperHead:
    """DP-BOA as its appendix K describes it: cached inverses, one Cholesky after each event. float32, K at most."""

    def __init__(self, density: FullDensity, counts: np.ndarray, scatter: np.ndarray, alpha: float) -> None:
        categories = len(counts)
        self._alpha = alpha
        self._counts = counts.astype(np.float64)
        self._means = density.means.copy()
        self._scatter = np.repeat(scatter[np.newaxis].astype(np.float32), categories, axis=0)
        self._inverse = np.repeat(np.linalg.inv(scatter)[np.newaxis].astype(np.float32), categories, axis=0)
        self._log_det = np.zeros(categories)

    @property
    def nbytes(self) -> int:
        """Scatter and inverse of every category."""
        return self._scatter.nbytes + self._inverse.nbytes

    def step(self, point: np.ndarray) -> int:
        """Score everybody, choose, refactor the chosen one."""
        difference = (point - self._means).astype(np.float32)
        squares = np.einsum("kd,kde,ke->k", difference, self._inverse, difference, optimize=True)
        degrees = self._counts + 2.0
        score = np.log(self._counts) + gammaln((degrees + DIMENSION) / 2) - 0.5 * self._log_det
        best = int(np.argmax(score - 0.5 * (degrees + DIMENSION) * np.log1p(squares / degrees)))
        self._counts[best] += 1.0
        change = point - self._means[best]
        self._means[best] += change / self._counts[best]
        self._scatter[best] += np.outer(change, point - self._means[best]).astype(np.float32)
        root = cholesky(self._scatter[best], lower=True, check_finite=False)
        self._inverse[best] = cho_solve((root, True), np.eye(DIMENSION, dtype=np.float32), check_finite=False)
        self._log_det[best] = 2.0 * np.log(np.diag(root)).sum()
        return best


def make_world(categories: int, dimension: int = DIMENSION) -> tuple[Head, np.ndarray]:
    """A fitted head with so many categories of thirty events, and a stream of the same kind."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(categories, dimension))
    few = min(categories, 200)
    classes = np.repeat(np.arange(few), EVENTS_EACH)
    support = centres[classes] + rng.normal(size=(len(classes), dimension))
    head = Head.fit(support, classes, density="full", policy="dp", alpha=1e-9)
    for centre in centres[few:]:
        born = head.size
        events = np.array([centre + rng.normal(size=dimension) for _ in range(EVENTS_EACH)])
        for number, point in enumerate(head.embed(events)):
            head.learn(point, born, birth=not number)
    stream = centres[rng.integers(0, categories, size=4096)] + rng.normal(size=(4096, dimension))
    return head, stream


def seconds(call: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def compare(categories: int, rounds: int) -> None:
    """One line a form: time an event, the ratio to the limit, memory a category."""
    head, stream = make_world(categories)
    state, density = head.state(), inside(head)
    nbytes, count = head.nbytes, len(density.rows)
    paper = (
        PaperHead(density, density.counts, np.eye(DIMENSION) * 40.0, 1e-9) if categories <= PAPER_CATEGORIES else None
    )
    times: dict[str, list[float]] = {name: [] for name in ("gemv", "gemm", "step", "batch", "paper")}
    for number in range(rounds):
        if number % ROUNDS_A_STATE == 0:
            # So that there are always about as many rows as at the start.
            head = Head.from_state(state)
            density = inside(head)
        if paper is not None and number % PAPER_EVERY == 0:
            times["paper"].append(seconds(lambda: paper.step(stream[number])))  # noqa: B023
        start = number * (STEPS + BATCH) % (len(stream) - STEPS - BATCH)
        compare_round(density, head, stream[start : start + STEPS + BATCH], times)
    report(categories, count, times, nbytes, paper.nbytes if paper else 2 * categories * DIMENSION**2 * 4)


def compare_round(density: FullDensity, head: Head, events: np.ndarray, times: dict[str, list[float]]) -> None:
    """Events one by one and as a batch, each beside the bare product with the very rows they are scored by."""
    one, many = events[0].astype(np.float32), events[:BATCH].astype(np.float32)
    all_rows(density) @ one  # what the others left in the caches must not be charged to the first
    for event in events[:STEPS]:
        times["gemv"].append(seconds(lambda: all_rows(density) @ one))
        times["step"].append(seconds(lambda: head.step(event)))  # noqa: B023
    times["gemm"].append(seconds(lambda: all_rows(density) @ many.T) / BATCH)
    times["batch"].append(seconds(lambda: head.process(events[STEPS:])) / BATCH)


def inside(head: Head) -> FullDensity:
    """The density of a head."""
    density: FullDensity = head._density  # type: ignore[assignment]  # noqa: SLF001  # a look inside
    return density


def all_rows(density: FullDensity) -> np.ndarray:
    """The rows of all categories, where they are."""
    return density.rows._rows[: len(density.rows)]  # noqa: SLF001  # a look inside


PAPER_CATEGORIES = 200
PAPER_EVERY = 4
ROUNDS_A_STATE = 4
STEPS = 8


def report(categories: int, rows: int, times: dict[str, list[float]], ours: int, theirs: int) -> None:
    """Print the lines of one size."""
    median = {name: float(np.median(values)) * 1e3 for name, values in times.items() if values}
    slowest = float(np.quantile(times["step"], 0.99)) * 1e3
    print(f"K = {categories:,}, {rows:,} rows of {DIMENSION}, one BLAS thread")
    print(f"  bare GEMV             {median['gemv']:8.3f} ms an event")
    print(
        f"  ours, one by one      {median['step']:8.3f} ms   {median['step'] / median['gemv']:5.2f} × the GEMV   "
        f"p99 {slowest / median['step']:.2f} × p50"
    )
    print(f"  bare GEMM of {BATCH}       {median['gemm']:8.3f} ms an event")
    print(
        f"  ours, batches of {BATCH}   {median['batch']:8.3f} ms   {median['batch'] / median['gemm']:5.2f} × the GEMM"
    )
    if "paper" in median:
        print(
            f"  the paper's form      {median['paper']:8.3f} ms   {median['paper'] / median['step']:5.0f} × ours one "
            f"by one, {median['paper'] / median['batch']:.0f} × ours batched"
        )
    print(
        f"  memory a category     {ours / categories / 1e3:8.1f} kB, the paper's {theirs / categories / 1e3:,.0f} kB: "
        f"1/{theirs / ours:.0f}"
    )


def run_long(events: int, dimension: int, categories: int = 77) -> None:
    """A long stream: every tenth of it, the rate, the memory, the most rows a category has, and its wear."""
    head, _ = make_world(categories, dimension)
    density = inside(head)
    rng = np.random.default_rng(1)
    centres = np.linalg.solve(density._prior.whiten, density.means.T).T + density._prior.mean  # noqa: SLF001
    for part in range(10):
        start = time.perf_counter()
        for _ in range(max(1, events // 10 // 256)):
            head.process(centres[rng.integers(0, categories, 256)] + rng.normal(size=(256, dimension)))
        done = max(1, events // 10 // 256) * 256
        most = max(density.rows.count(category) for category in range(head.size))
        rate = done / (time.perf_counter() - start)
        print(
            f"{(part + 1) * done:>10,} events: {rate:,.0f} a second, {head.size} categories, at most {most} rows each, "
            f"{head.nbytes / 1e6:.1f} MB, wear {max(head.verify().values()):.1e} nats",
            flush=True,
        )


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--categories", type=int, nargs="+", default=[77, 200, 1000])
    parser.add_argument("--rounds", type=int, default=48)
    parser.add_argument("--long", type=int, metavar="EVENTS", help="run one long stream instead")
    parser.add_argument("--dimension", type=int, default=DIMENSION, help="of the long stream")
    options = parser.parse_args()
    if options.long:
        run_long(options.long, options.dimension)
        return
    for categories in options.categories:
        compare(categories, options.rounds)


if __name__ == "__main__":
    main()
