"""From folders of photographs to assignments by the two commands that a user has, `speciate fit` and `speciate run`.

    python benchmarks/photographs.py --data FOLDER      pets-images/BREED/*.jpg and splits.json in it

For each seed half of the photographs of the known breeds are the support set, and all others come in random order, as
the names of their files say. Fitted with the options that `fit` has by itself: the encoder as it is (`--frozen`),
trained with cross-entropy, and with supervised contrast on top. Printed are strict accuracies of the answers of `run`,
the mean over the seeds and the range, categories, kappa0 before and after training, and the time of both
commands. `finetune.py` compares heads on the same features.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from finetune import PLUGINS, benchmark, known_breeds, link_support
from speciate.bundle import Bundle
from speciate.evaluate.accuracy import Accuracy, strict_accuracy
from speciate.replay.recorded import load_recorded
from speciate.replay.streams import Stream, make_stream

KINDS = {"frozen": ("--frozen",), "CE": (), "CE + SupCon": ("-s", "training.loss=ce+supcon")}
OUTPUTS = {"sink": "assignments.jsonl", "dead_letters": "dead-letters.log", "store": "state"}


class Found(NamedTuple):
    """What one model came to."""

    accuracy: Accuracy
    categories: int
    kappa0: float
    kappa0_frozen: float
    fit_seconds: float
    run_seconds: float


def speciate(folder: Path, *arguments: str) -> float:
    """Run a command to its end; how many seconds it took."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "speciate.cli", *arguments], cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - started


def lay_out(folder: Path, photographs: list[Path], drawn: Stream) -> None:
    """The support set as a folder a breed, and the stream as numbered files that tell nothing of their breed."""
    link_support(folder, photographs, drawn.support)
    (folder / "stream").mkdir()
    for number, place in enumerate(drawn.stream.tolist()):
        (folder / "stream" / f"{number:06d}.jpg").symlink_to(photographs[place].absolute())


def whole_way(folder: Path, kind: str, seed: int, truth: list[str], known: list[str]) -> Found:
    """Fit, run, and hold the answers against the truth."""
    name = kind.replace(" ", "")
    seeded = () if kind == "frozen" else ("-s", f"training.seed={seed}")
    fit_seconds = speciate(folder, "fit", "support", "--out", name, *KINDS[kind], *seeded)
    outputs = [f"{section}.path={name}-out/{file}" for section, file in OUTPUTS.items()]
    settings = [part for one in ("source.labels=none", *outputs) for part in ("-s", one)]
    run_seconds = speciate(folder, "run", name, "stream", *settings)
    lines = (folder / f"{name}-out" / OUTPUTS["sink"]).read_text().splitlines()
    answers: list[dict[str, Any]] = [json.loads(line) for line in lines]
    if [one["type"] for one in answers] != ["assignment.v1"] * len(truth):
        raise SystemExit(f"{len(truth)} photographs got {len(answers)} answers, not all of them assignments")
    categories = [one["category"] for one in answers]
    card = Bundle.load(folder / name).manifest.card
    kappa0 = card.estimated["kappa0"]
    return Found(
        strict_accuracy(categories, truth, known),
        len(set(categories)),
        kappa0,
        card.estimated_frozen.get("kappa0", kappa0),
        fit_seconds,
        run_seconds,
    )


def print_table(found: dict[str, list[Found]]) -> None:
    """One line a kind of model."""
    print("| encoder | All | Known | Novel | range of All | categories met | κ₀ before | κ₀ after | fit, s | run, s |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for kind, each in found.items():
        shares = 100 * np.array([one.accuracy for one in each])
        means = " | ".join(f"{share:.1f}" for share in shares.mean(axis=0))
        spread = f"{shares[:, 0].min():.1f}–{shares[:, 0].max():.1f}"
        rest = np.mean([one[1:] for one in each], axis=0)
        print(
            f"| {kind} | {means} | {spread} | {rest[0]:.1f} | {rest[2]:.3g} | {rest[1]:.3g} | {rest[3]:.0f} "
            f"| {rest[4]:.0f} |"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    photographs = sorted((options.data / "pets-images").glob("*/*.jpg"))
    breeds, known = [path.parent.name for path in photographs], known_breeds(options.data)
    found: dict[str, list[Found]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as root:
        # Whoever draws the support set and the order needs features for nothing but their number.
        np.savez(Path(root, "features.npz"), features=np.zeros((len(breeds), 1), np.float32), labels=np.array(breeds))
        recorded = load_recorded("pets", benchmark(known), Path(root), PLUGINS)
        for seed in options.seeds:
            folder = Path(root, str(seed))
            folder.mkdir()
            drawn = make_stream(recorded, benchmark(known).support, "random", 1, seed)
            lay_out(folder, photographs, drawn)
            truth = [breeds[place] for place in drawn.stream.tolist()]
            for kind in KINDS:
                found[kind].append(whole_way(folder, kind, seed, truth, known))
                last = found[kind][-1]
                sys.stderr.write(f"seed {seed}, {kind}: {last}\n")
    print(f"{len(photographs)} photographs, {len(drawn.support)} of them support; seeds {options.seeds}")
    print_table(found)


if __name__ == "__main__":
    main()
