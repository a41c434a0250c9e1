"""The conformance checks notice plugins that break a law."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from speciate.conformance import check_density, check_policy, check_sink, check_source, check_store
from speciate.screening import ExactScreening
from speciate.stages import Choice, DensityState, Record
from speciate_plugins.densities.nearest_mean import NearestMean, NearestMeanOptions
from speciate_plugins.policies.dp import DirichletOptions, DirichletPolicy
from speciate_plugins.sinks.appending import FileOptions
from speciate_plugins.sinks.jsonl import JsonLinesSink
from speciate_plugins.sources.jsonl import JsonLinesSource
from speciate_plugins.sources.streams import StreamOptions
from speciate_plugins.stores.directory import DirectoryOptions, DirectoryStore
from speciate_schemas import Assignment, FeatureEvent, Position, encode


@pytest.fixture
def log(tmp_path) -> StreamOptions:
    lines = [encode(FeatureEvent(id=str(n), features=[1.0]), "json") for n in range(9)]
    (tmp_path / "in").write_bytes(b"\n".join(lines))
    return StreamOptions(paths=[str(tmp_path / "in")])


class Forgetful(JsonLinesSource):
    """Starts at the beginning whatever it is told."""

    def open_now(self, position: Position | None, sequence: int) -> None:
        super().open_now(None, sequence)


class Generous(JsonLinesSource):
    """Gives more than it is asked for."""

    def read_now(self, max_events: int) -> Sequence[Record] | None:
        return super().read_now(max_events + 1)


class Unnumbered(JsonLinesSource):
    """Numbers from 0 whatever it is told."""

    def open_now(self, position: Position | None, sequence: int) -> None:
        super().open_now(position, 0)


class Endless(JsonLinesSource):
    """Does not stop."""

    def stop(self) -> None:
        pass


class Undecided(JsonLinesSource):
    """Gives neither event nor error."""

    def read_now(self, max_events: int) -> Sequence[Record] | None:
        records = super().read_now(max_events)
        for record in records or ():
            record.event = None
        return records


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        (Forgetful, "must yield exactly the rest"),
        (Generous, r"read\(1\) gave 2 records"),
        (Unnumbered, "numbered one after another"),
        (Endless, r"after stop\(\)"),
        (Undecided, "either an event or an error"),
    ],
)
async def test_a_broken_source_is_noticed(log, kind, law) -> None:
    with pytest.raises(AssertionError, match=law):
        await check_source(lambda: kind(log))


async def test_a_source_without_records_tells_nothing(tmp_path) -> None:
    (tmp_path / "in").touch()
    with pytest.raises(AssertionError, match="at least one record"):
        await check_source(lambda: JsonLinesSource(StreamOptions(paths=[str(tmp_path / "in")])))


class Careless(JsonLinesSink):
    """Writes over whatever is there."""

    def open_now(self, position: Position | None, *, fresh: bool) -> None:
        super().open_now(position, fresh=position is None)


class Uncut(JsonLinesSink):
    """Does not cut back, only forgets that it should have."""

    def open_now(self, position: Position | None, *, fresh: bool) -> None:
        path = Path(self.describe())
        before = path.read_bytes() if path.exists() else b""
        super().open_now(position, fresh=fresh)
        path.write_bytes(before)
        self._length = len(before)


class Lossy(JsonLinesSink):
    """Loses the last item."""

    def write_now(self, items: Sequence[object]) -> None:
        super().write_now(items[:-1])


@pytest.mark.parametrize(
    ("kind", "law"),
    [(Careless, "must be refused without a position"), (Uncut, "as if never cut back"), (Lossy, "must be read back")],
)
async def test_a_broken_sink_is_noticed(tmp_path, kind, law) -> None:
    answers = [
        Assignment(
            id=str(n),
            stream="",
            sequence=n,
            category=n,
            label=None,
            birth=True,
            log_evidence=0.0,
            margin=None,
            probability=1.0,
            drift=None,
            head_version=n,
        )
        for n in range(10)
    ]
    with pytest.raises(AssertionError, match=law):
        await check_sink(lambda: kind(FileOptions(path=str(tmp_path / "out"))), answers)


class Unlocked(DirectoryStore):
    """Lets everyone in."""

    def _take_lock(self) -> None:
        pass


class Kept(DirectoryStore):
    """Is never fresh."""

    def open(self, *, fresh: bool) -> None:
        super().open(fresh=False)


@pytest.mark.parametrize(("kind", "law"), [(Unlocked, "StateLockedError"), (Kept, "fresh must empty the store")])
def test_a_broken_store_is_noticed(tmp_path, kind, law) -> None:
    with pytest.raises(AssertionError, match=law):
        check_store(lambda: kind(DirectoryOptions(path=str(tmp_path))))


class Relative(NearestMean):
    """Embeds an event by its neighbours."""

    def embed(self, batch: np.ndarray) -> np.ndarray:
        return batch - batch.mean(axis=0) if len(batch) else batch


class Crowded(NearestMean):
    """Scores a category by how many others are asked for."""

    def score(self, point: np.ndarray, categories: Sequence[int]) -> np.ndarray:
        return super().score(point, categories) / max(len(categories), 1)


class Stale(NearestMean):
    """Screens once and for all."""

    def screen(self, points: np.ndarray) -> ExactScreening:
        screening = ExactScreening(self, points)
        screening.refresh = lambda place, category: None
        return screening


class Blurred(NearestMean):
    """Screens with less care than it says."""

    def screen(self, points: np.ndarray) -> ExactScreening:
        screening = ExactScreening(self, points)
        screening.blur, screening._table = 0.1, screening._table + 0.2
        return screening


class Learning(NearestMean):
    """Learns from being asked."""

    def score_birth(self, points: np.ndarray) -> np.ndarray:
        scores = super().score_birth(points)
        self._between *= 2.0
        return scores


class Shared(NearestMean):
    """Hands out its own arrays."""

    def export_state(self) -> DensityState:
        shared, categories = super().export_state()
        return DensityState(shared | {"centre": type(shared["centre"]).of(self._centre)}, categories)

    def absorb(self, category: int, point: np.ndarray) -> float:
        self._centre += 1.0
        return super().absorb(category, point)


class Lost(NearestMean):
    """Does not know how far it went."""

    def absorb(self, category: int, point: np.ndarray) -> float:
        return super().absorb(category, point) * np.nan


class Boundless(NearestMean):
    """Went further than there is."""

    def absorb(self, category: int, point: np.ndarray) -> float:
        return super().absorb(category, point) + np.inf


class Backward(NearestMean):
    """Went less than nowhere."""

    def absorb(self, category: int, point: np.ndarray) -> float:
        return -1.0 - super().absorb(category, point)


class Silent(NearestMean):
    """Does not say how far it went."""

    def absorb(self, category: int, point: np.ndarray) -> None:
        super().absorb(category, point)


class Summary(NearestMean):
    """One figure for everybody."""

    def verify(self) -> np.ndarray:
        return np.zeros(1)


class Square(NearestMean):
    """More figures than were asked for."""

    def verify(self) -> np.ndarray:
        return np.zeros((len(self.counts), 1))


class Unsure(NearestMean):
    """Cannot tell how exact the last is."""

    def verify(self) -> np.ndarray:
        return np.append(np.zeros(len(self.counts) - 1), np.nan)


class Modest(NearestMean):
    """More exact than exact."""

    def verify(self) -> np.ndarray:
        return np.full(len(self.counts), -1e-9)


class Mending(NearestMean):
    """Repairs what it was only to look at."""

    def verify(self) -> np.ndarray:
        self._means = np.round(self._means, 3)
        return super().verify()


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        (Relative, "be embedded as among all"),
        (Crowded, "must have the bits of those under all"),
        (Stale, "screening of event 1 after 1 were learnt|must have the bits of the scores"),
        (Blurred, "more than its blur 0.1"),
        (Learning, "must change nothing|as births as among all"),
        (Shared, "must not change when the density learns on"),
        (Lost, "absorb must say how far the mean moved, finite and not negative"),
        (Boundless, "absorb must say how far the mean moved, finite and not negative"),
        (Backward, "absorb must say how far the mean moved, finite and not negative"),
        (Silent, "absorb must say how far the mean moved, finite and not negative"),
        (Summary, "verify must give one figure a category"),
        (Square, "verify must give one figure a category"),
        (Unsure, "verify must give one figure a category, finite and not negative"),
        (Modest, "verify must give one figure a category, finite and not negative"),
        (Mending, "verify must change nothing"),
    ],
)
def test_a_broken_density_is_noticed(kind, law) -> None:
    rng = np.random.default_rng(0)
    features, classes = rng.normal(size=(9, 3)), np.arange(9) % 3
    events = rng.normal(size=(8, 3))
    check_density(lambda: NearestMean(NearestMeanOptions()), features, classes, events)
    with pytest.raises(AssertionError, match=law):
        check_density(lambda: kind(NearestMeanOptions()), features, classes, events)


class Greedy(DirichletPolicy):
    """Changes what it is given."""

    def weigh(self, log_density, counts, log_birth):
        log_density += 1.0
        return super().weigh(log_density, counts, log_birth)


class Normalised(DirichletPolicy):
    """The evidence of one category depends on the others."""

    def weigh(self, log_density, counts, log_birth):
        evidence, birth = super().weigh(log_density, counts, log_birth)
        return evidence - evidence.sum(), birth


class Contrary(DirichletPolicy):
    """The less likely the better."""

    def weigh(self, log_density, counts, log_birth):
        return super().weigh(-log_density, counts, log_birth)


class Biased(DirichletPolicy):
    """Prefers those that stand in front."""

    def weigh(self, log_density, counts, log_birth):
        evidence, birth = super().weigh(log_density, counts, log_birth)
        return evidence - np.arange(len(evidence)), birth


class Averaging(DirichletPolicy):
    """Looks at categories that are out of the question."""

    def choose(self, evidence, birth):
        choice = super().choose(evidence, birth)
        return choice._replace(margin=abs(float(evidence.mean()))) if len(evidence) else choice


class Certain(DirichletPolicy):
    """More than sure."""

    def choose(self, evidence, birth):
        return super().choose(evidence, birth)._replace(probability=1.5)


class Barren(DirichletPolicy):
    """Never gives birth."""

    def choose(self, evidence, birth):
        return Choice(0, birth, None, 1.0) if not len(evidence) else super().choose(evidence, birth)


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        (Greedy, "must not change what it weighs"),
        (Normalised, "must not change the evidence of anything else|must not fall"),
        (Contrary, "must not fall"),
        (Biased, "in another order"),
        (Averaging, "nats behind must not show"),
        (Certain, "within 0 … 1"),
        (Barren, "there is only a birth"),
    ],
)
def test_a_broken_policy_is_noticed(kind, law) -> None:
    with pytest.raises(AssertionError, match=law):
        check_policy(lambda: kind(DirichletOptions()))
