"""The conformance checks notice plugins that break a law."""

import time
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from speciate.conformance import check_density, check_encoder, check_policy, check_sink, check_source, check_store
from speciate.errors import EncodeError, EventError
from speciate.screening import ExactScreening
from speciate.stages import Choice, DensityState, Record
from speciate_plugins.densities.nearest_mean import NearestMean, NearestMeanOptions
from speciate_plugins.encoders.thumbnail import ThumbnailEncoder, ThumbnailOptions
from speciate_plugins.policies.dp import DirichletOptions, DirichletPolicy
from speciate_plugins.sinks.appending import FileOptions
from speciate_plugins.sinks.jsonl import JsonLinesSink
from speciate_plugins.sources.jsonl import JsonLinesSource
from speciate_plugins.sources.streams import StreamOptions
from speciate_plugins.stores.directory import DirectoryOptions, DirectoryStore
from speciate_schemas import Assignment, FeatureEvent, ImageEvent, Position, encode


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


class Unsteered(DirectoryStore):
    """Keeps control events through anything."""

    def open(self, *, fresh: bool) -> None:
        kept = self.sent(0)
        super().open(fresh=fresh)
        for data in kept if fresh else ():
            self.send(data)


class Mute(DirectoryStore):
    """Tells everybody the first number."""

    def send(self, data: bytes) -> int:
        return super().send(data) and 0


class Careful(DirectoryStore):
    """Never takes a place back."""

    def save_places(self, places: Sequence[int]) -> None:
        super().save_places([*places, *self.load_places()[len(places) :]])


class Rushed(DirectoryStore):
    """Numbers by what was there when it was asked."""

    def send(self, data: bytes) -> int:
        number = len(DirectoryStore.sent(self, 0))
        time.sleep(0.001)
        super().send(data)
        return number


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        (Unlocked, "StateLockedError"),
        (Kept, "fresh must empty the store"),
        (Unsteered, "fresh must discard control events"),
        (Mute, "numbered as they were sent"),
        (Careful, "the places saved last"),
        (Rushed, "each control event must be kept once"),
    ],
)
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


class Unmeasured(ThumbnailEncoder):
    """Does not know how long a vector is."""

    def load(self) -> None:
        self.dimension = 0


class Mismeasured(ThumbnailEncoder):
    """Is wrong about how long a vector is."""

    def encode(self, prepared: Sequence[np.ndarray]) -> np.ndarray:
        return super().encode(prepared)[:, 1:]


class Growing(ThumbnailEncoder):
    """Gets longer vectors each time it is loaded."""

    loads = 0

    def load(self) -> None:
        self.loads += 1
        self.dimension = self._size**2 + self.loads

    def encode(self, prepared: Sequence[np.ndarray]) -> np.ndarray:
        return np.pad(np.stack(prepared), ((0, 0), (0, self.loads)))


class Reweighted(ThumbnailEncoder):
    """Gets other weights each time it is loaded."""

    weight = 0.5

    def load(self) -> None:
        self.weight *= 2

    def encode(self, prepared: Sequence[np.ndarray]) -> np.ndarray:
        return super().encode(prepared) * self.weight


class Individual(ThumbnailEncoder):
    """Differs from all others of its kind."""

    made = count(1)

    def __init__(self, options: ThumbnailOptions) -> None:
        super().__init__(options)
        self._weight = next(self.made)

    def encode(self, prepared: Sequence[np.ndarray]) -> np.ndarray:
        return super().encode(prepared) * self._weight


class Tiring(ThumbnailEncoder):
    """Sees less each time."""

    sight = 1.0

    def prepare(self, image: ImageEvent) -> np.ndarray:
        self.sight *= 0.9
        return super().prepare(image) * self.sight


class Told(ThumbnailEncoder):
    """Looks at the label."""

    def prepare(self, image: ImageEvent) -> np.ndarray:
        return super().prepare(image) + len(image.label or "")


class Listing(ThumbnailEncoder):
    """Prepares something that is no array."""

    def prepare(self, image: ImageEvent) -> list[float]:
        return super().prepare(image).tolist()


class Overwriting(ThumbnailEncoder):
    """Prepares every image in the same place."""

    def __init__(self, options: ThumbnailOptions) -> None:
        super().__init__(options)
        self._place = np.zeros(self.dimension, np.float32)

    def prepare(self, image: ImageEvent) -> np.ndarray:
        self._place[:] = super().prepare(image)
        return self._place


class Racing(Overwriting):
    """Prepares every image in the same place, and copies it too late."""

    def prepare(self, image: ImageEvent) -> np.ndarray:
        place = super().prepare(image)
        time.sleep(0.001)
        return place.copy()


class Scribbling(ThumbnailEncoder):
    """Changes what it is given."""

    def encode(self, prepared: Sequence[np.ndarray]) -> np.ndarray:
        rows = super().encode(prepared)
        prepared[0][0] += 1.0
        return rows


class Recycling(ThumbnailEncoder):
    """Gives the same rows out again and again."""

    def __init__(self, options: ThumbnailOptions) -> None:
        super().__init__(options)
        self._rows = np.zeros((100, self.dimension), np.float32)

    def encode(self, prepared: Sequence[np.ndarray]) -> np.ndarray:
        self._rows[: len(prepared)] = prepared
        return self._rows[: len(prepared)]


class Single(ThumbnailEncoder):
    """Encodes one image, however many there are."""

    def encode(self, prepared: Sequence[np.ndarray]) -> np.ndarray:
        return super().encode(prepared[:1])


class Backwards(ThumbnailEncoder):
    """Begins with the last."""

    def encode(self, prepared: Sequence[np.ndarray]) -> np.ndarray:
        return super().encode(prepared)[::-1]


class Whole(ThumbnailEncoder):
    """Gives numbers that are no floats."""

    def encode(self, prepared: Sequence[np.ndarray]) -> np.ndarray:
        return (255 * super().encode(prepared)).astype(np.int64)


class Overflowing(ThumbnailEncoder):
    """Gives numbers that are none."""

    def encode(self, prepared: Sequence[np.ndarray]) -> np.ndarray:
        return np.where(super().encode(prepared) > 0.9, np.inf, 0.0)


class Sociable(ThumbnailEncoder):
    """Looks at the neighbours, a little."""

    def encode(self, prepared: Sequence[np.ndarray]) -> np.ndarray:
        rows = super().encode(prepared)
        return rows + 0.01 * rows.mean(axis=0)


class Impressed(ThumbnailEncoder):
    """Looks at the size of the batch."""

    def encode(self, prepared: Sequence[np.ndarray]) -> np.ndarray:
        return super().encode(prepared) * (1.0 + 0.01 * len(prepared))


class Dropping(ThumbnailEncoder):
    """Leaves out features by chance, as a network does while it is trained."""

    chance = np.random.default_rng(0)

    def encode(self, prepared: Sequence[np.ndarray]) -> np.ndarray:
        rows = super().encode(prepared)
        return rows * (self.chance.random(rows.shape) > 0.1)


class Blind(ThumbnailEncoder):
    """Has the same features for everything."""

    def encode(self, prepared: Sequence[np.ndarray]) -> np.ndarray:
        return np.ones((len(prepared), self.dimension))


class Refusing(ThumbnailEncoder):
    """What is wrong with how it refuses is told by those below."""

    def prepare(self, image: ImageEvent) -> np.ndarray:
        try:
            return super().prepare(image)
        except EventError as error:
            return self.refuse(image, error)

    def refuse(self, image: ImageEvent, error: EventError) -> np.ndarray:
        raise NotImplementedError


class Indulgent(Refusing):
    """Takes what is no image for a black one."""

    def refuse(self, image: ImageEvent, error: EventError) -> np.ndarray:
        if bytes(image.image[:4]) == b"\x89PNG" or not image.image:
            raise error
        return np.zeros(self.dimension, np.float32)


class Hollow(Refusing):
    """Takes nothing at all for a black image."""

    def refuse(self, image: ImageEvent, error: EventError) -> np.ndarray:
        if image.image:
            raise error
        return np.zeros(self.dimension, np.float32)


class Completing(Refusing):
    """Takes what was cut off for black."""

    def refuse(self, image: ImageEvent, error: EventError) -> np.ndarray:
        if bytes(image.image[:4]) != b"\x89PNG":
            raise error
        return np.zeros(self.dimension, np.float32)


class Rough(Refusing):
    """Lets through whatever was raised."""

    def refuse(self, image: ImageEvent, error: EventError) -> np.ndarray:
        raise ValueError(str(error))


class Speechless(Refusing):
    """Does not say why."""

    def refuse(self, image: ImageEvent, error: EventError) -> np.ndarray:
        raise EncodeError


class Counting(Refusing):
    """Counts what it refuses."""

    def __init__(self, options: ThumbnailOptions) -> None:
        super().__init__(options)
        self._numbers: Iterator[int] = count(1)

    def refuse(self, image: ImageEvent, error: EventError) -> np.ndarray:
        raise EncodeError(f"refused image number {next(self._numbers)}")


class Pointing(Refusing):
    """Names a place in memory which by chance is the same again."""

    def refuse(self, image: ImageEvent, error: EventError) -> np.ndarray:
        raise EncodeError("cannot identify <_io.BytesIO object at 0x7f3a5c0b1e40>")


class Offended(Refusing):
    """Goes on with less care once it was given no image."""

    care = 1.0

    def refuse(self, image: ImageEvent, error: EventError) -> np.ndarray:
        self.care = 0.5
        raise error

    def encode(self, prepared: Sequence[np.ndarray]) -> np.ndarray:
        return super().encode(prepared) * self.care


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        (Unmeasured, "dimension must be known after load"),
        (Mismeasured, "as long as dimension says"),
        (Growing, "to load twice must not change the dimension"),
        (Reweighted, "loaded twice, images must have the same features"),
        (Individual, "from another instance, images must have the same features"),
        (Tiring, "image 0 prepared again must have the same bits"),
        (Told, "not by the id, stream, time or label"),
        (Listing, "prepare must give an array, not a list"),
        (Overwriting, "must not change when other images are prepared"),
        (Racing, "several threads at once"),
        (Scribbling, "encode must not change what it is given"),
        (Recycling, "rows must not change when other images are encoded"),
        (Single, "encode must give one row an image"),
        (Backwards, "must have the features they have alone, in order"),
        (Whole, "features must be floats, not int64"),
        (Overflowing, "features must be finite"),
        (Sociable, "must have the features they have alone"),
        (Impressed, "must have the features they have alone"),
        (Dropping, "must have the features they have alone"),
        (Blind, "have all the same features"),
        (Indulgent, "what is no image must be refused by prepare"),
        (Hollow, "an image without bytes must be refused by prepare"),
        (Completing, "the first half of image 0 must be refused by prepare"),
        (Rough, "with an EventError, not with ValueError"),
        (Speechless, "must be refused with a reason"),
        (Counting, "in the same words each time, not: EncodeError: refused image number 1 / "),
        (Pointing, "must name no address in memory"),
        (Offended, "after images were refused, images must have the same features"),
    ],
)
def test_a_broken_encoder_is_noticed(kind, law) -> None:
    with pytest.raises(AssertionError, match=law):
        check_encoder(lambda: kind(ThumbnailOptions(size=8)))


def test_an_encoder_that_is_right_passes_and_one_that_is_nearly_right_if_that_is_allowed() -> None:
    check_encoder(lambda: ThumbnailEncoder(ThumbnailOptions(size=8)), tolerance=0.0)
    check_encoder(lambda: Sociable(ThumbnailOptions(size=8)), tolerance=0.1)


def test_an_encoder_is_checked_with_two_images_that_it_takes() -> None:
    with pytest.raises(AssertionError, match="at least 2 images"):
        check_encoder(lambda: ThumbnailEncoder(ThumbnailOptions()), [b"alone"])
    with pytest.raises(AssertionError, match=r"image 0 is refused .* check with images that the encoder takes"):
        check_encoder(lambda: ThumbnailEncoder(ThumbnailOptions()), [b"raw", b"pixels"])
