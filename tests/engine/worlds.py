"""What the engine's tests share: a clock that leaps, records, a head, and pipelines in a folder."""

import asyncio
import inspect
import io
import threading
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st

from speciate.config import Resolved, parse, resolve
from speciate.errors import DecodeError, EncodeError, EventError
from speciate.flow import Flow
from speciate.head import Head
from speciate.parts import Parts
from speciate.pipeline import Pipeline
from speciate.plugins import installed
from speciate.report import Report
from speciate.stages import Record, Seat
from speciate_schemas import (
    Array,
    Event,
    FeatureEvent,
    ForgetCategory,
    ImageEvent,
    MergeCategories,
    RenameCategory,
    UndoLast,
    encode,
)
from speciate_schemas.framing import pack

T = TypeVar("T")
DIMENSION = 3
CENTRES = np.array([[0.0, 0.0, 0.0], [9.0, 0.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 9.0], [9.0, 9.0, 9.0]])
"""Two known classes and three to be found."""


class LeapingLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock leaps to the next timer instead of waiting for it: exact, and at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        select = self._selector.select

        def leap(timeout: float | None) -> list[Any]:
            assert timeout is not None, "everybody waits and nothing will ever happen"
            self.now += timeout
            return select(0)

        self._selector.select = leap

    def time(self) -> float:
        return self.now


def leaping(main: Coroutine[Any, Any, T]) -> T:
    """Run something in no time."""
    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        return runner.run(main)


def clock() -> float:
    """What the running loop's clock says."""
    return asyncio.get_running_loop().time()


def feature(number: int | str, vector: Sequence[float] = (0.0, 0.0, 0.0), **more: Any) -> FeatureEvent:
    return FeatureEvent(id=str(number), features=Array.of(np.array(vector, dtype=np.float64)), **more)


def record(
    sequence: int, event: Event | None = None, *, nbytes: int = 1, error: EventError | None = None, **more: Any
) -> Record:
    if event is None and error is None:
        event = feature(sequence)
    return Record(
        sequence=sequence,
        position=(sequence + 1,),
        origin=f"test@{sequence}",
        nbytes=nbytes,
        event=event,
        error=error,
        **more,
    )


def support() -> tuple[np.ndarray, list[str]]:
    rng = np.random.default_rng(0)
    return np.concatenate([CENTRES[k] + rng.normal(size=(4, DIMENSION)) for k in range(2)]), ["a"] * 4 + ["b"] * 4


def make_head(alpha: float = 1e-2) -> Head:
    return Head.fit(*support(), density="nearest-mean", policy="dp", alpha=alpha)


def bits(value: Any) -> bytes:
    """Equal if and only if every bit is."""
    return encode(value)


vectors = st.tuples(st.integers(0, len(CENTRES) - 1), st.tuples(*[st.integers(-4, 4)] * DIMENSION)).map(
    lambda drawn: (CENTRES[drawn[0]] + np.array(drawn[1]) / 2.0).tolist()
)
"""Near one of the centres, on a grid: equal vectors and ties come about."""

ids = st.integers(0, 30).map(str)
streams = st.sampled_from(["", "cam"])
categories = st.integers(0, 8)


def inputs() -> st.SearchStrategy[dict[str, Any]]:
    """What a record is made of: good events for the most part, control events, and every kind of bad input."""
    good = st.builds(lambda id_, stream, vector: feature(id_, vector, stream=stream), ids, streams, vectors)
    listed = st.builds(lambda id_, vector: FeatureEvent(id=id_, features=vector), ids, vectors)
    odd = st.sampled_from(
        [(np.nan, 0.0, 0.0), (1.0, np.inf, 0.0), (1.0, 2.0), (), (1e200, 0.0, 0.0), (-1e160, 1.0, 1.0)]
    )
    bad = st.builds(feature, ids, odd)
    matrix = st.builds(lambda id_: FeatureEvent(id=id_, features=Array.of(np.zeros((1, DIMENSION)))), ids)
    image = st.builds(lambda id_: ImageEvent(id=id_, image=memoryview(b"image")), ids)
    control = st.one_of(
        st.builds(RenameCategory, id=ids, category=categories, label=st.sampled_from(["x", "y"])),
        st.builds(MergeCategories, id=ids, keep=categories, absorb=categories),
        st.builds(ForgetCategory, id=ids, category=categories),
        st.builds(UndoLast, id=ids),
    )
    events = st.one_of(good, good, good, good, listed, bad, matrix, image, control).map(lambda event: {"event": event})
    broken = st.binary(max_size=5).map(lambda data: {"original": data, "error": DecodeError("broken")})
    unencodable = image.map(lambda event: {"event": event, "error": EncodeError("no image")})
    return st.one_of(events, events, events, broken, unencodable)


def as_records(drawn: Iterable[Mapping[str, Any]], start: int = 0) -> list[Record]:
    return [record(start + place, **one) for place, one in enumerate(drawn)]


def split(items: Sequence[T], cuts: Iterable[int]) -> list[Sequence[T]]:
    """The items in pieces, cut at some places; no piece is empty."""
    places = sorted({cut for cut in cuts if 0 < cut < len(items)})
    return [items[a:b] for a, b in zip([0, *places], [*places, len(items)], strict=True) if a < b]


def stream(count: int, seed: int = 0, *, start: int = 0) -> list[FeatureEvent]:
    """Events around all centres, each with an id and a time of its own."""
    rng = np.random.default_rng(seed)
    places = rng.integers(len(CENTRES), size=count)
    return [
        feature(f"e{start + n}", CENTRES[k] + rng.normal(scale=0.7, size=DIMENSION), time=float(n), label=f"c{k}")
        for n, k in enumerate(places)
    ]


def json_lines(events: Iterable[Event | bytes]) -> bytes:
    return b"".join((one if isinstance(one, bytes) else encode(one, "json")) + b"\n" for one in events)


def event_log(events: Iterable[Event | bytes]) -> bytes:
    return b"".join(pack(one if isinstance(one, bytes) else encode(one)) for one in events)


def write_support(folder: Path) -> Path:
    features, labels = support()
    path, unfinished = folder / "support.npz", folder / "unfinished.npz"
    np.savez(unfinished, features=features, labels=np.array(labels))
    # At once: another pipeline of the test may be reading it.
    return unfinished.replace(path)


def make_tree(folder: Path, events: Iterable[Event | bytes] | None = None, **changes: dict[str, Any]) -> dict[str, Any]:
    """A configuration that reads JSON Lines and writes below `out`; changes are merged into its sections."""
    if events is not None:
        (folder / "in.jsonl").write_bytes(json_lines(events))
    tree: dict[str, Any] = {
        "source": {"plugin": "jsonl", "paths": [str(folder / "in.jsonl")]},
        "support": {"plugin": "npz", "paths": [str(write_support(folder))]},
        "density": {"plugin": "nearest-mean"},
        "policy": {"plugin": "dp", "alpha": 1e-2},
        "sink": {"plugin": "jsonl", "path": str(folder / "out" / "answers.jsonl")},
        "dead_letters": {"plugin": "eventlog", "path": str(folder / "out" / "dead.log")},
        "store": {"plugin": "directory", "path": str(folder / "out" / "state")},
        "run": {"batch_events": 7, "linger_ms": 0.0},
        "commit": {"events": 20, "interval_ms": 1e6, "snapshot_events": 50},
    }
    for section, change in changes.items():
        whole = "plugin" in change
        tree[section] = change if whole else {**tree.get(section, {}), **change}
    return tree


class PreparedPipeline(Pipeline):
    """A pipeline of one task whose stages are made ahead, so that a test can put something in their way."""

    def __init__(self, resolved: Resolved, *, fresh: bool = False) -> None:
        super().__init__(resolved, fresh=fresh)
        self.stages = Parts.of(resolved, Seat(), self._worker._household.encoder)
        places = {"source": "source", "sink": "answers", "dead_letters": "dead_letters", "store": "store"}
        for section, place in places.items():
            if section in resolved.sections:
                chosen = resolved.sections[section]
                provider = replace(chosen.provider, create_at=lambda _, __, place=place: getattr(self.stages, place))
                resolved.sections[section] = replace(chosen, provider=provider)

    @property
    def flow(self) -> Flow | None:
        """The flow of its task, once there is one."""
        return next((run.flow for run in self._worker.runs), None)

    async def run(self) -> Report:
        self._worker._household.encoder = self.stages.encoder
        return await super().run()


def make_pipeline(tree: Mapping[str, Any], *, fresh: bool = False) -> PreparedPipeline:
    return PreparedPipeline(resolve(parse(tree), installed()), fresh=fresh)


def outputs(folder: Path) -> dict[str, bytes]:
    """Everything a run left behind, but the lock and the older snapshots: what must not depend on interruptions."""
    out = folder / "out"
    found = {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}
    snapshots = sorted(name for name in found if name.endswith(".snapshot"))
    for name in ["state/lock", *snapshots[:-1]]:
        found.pop(name, None)
    return found


class PowerError(Exception):
    """The power is gone."""


class Fuse:
    """Blows at one call of many: before it is done, or right behind it."""

    def __init__(self, at: int | None = None, *, behind: bool = False) -> None:
        self._at = at
        self._behind = behind
        self.calls: list[str] = []
        self._counting = threading.Lock()

    def before(self, name: str) -> int:
        with self._counting:
            self.calls.append(name)
            number = len(self.calls) - 1
        if number == self._at and not self._behind:
            raise PowerError(f"before {name}")
        return number

    def behind(self, name: str, number: int) -> None:
        if number == self._at and self._behind:
            raise PowerError(f"behind {name}")


class Fused:
    """A real part whose calls of these names pass a fuse."""

    def __init__(self, part: Any, fuse: Fuse, *names: str) -> None:
        self._part = part
        self._fuse = fuse
        self._names = names

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._part, name)
        if name not in self._names:
            return real
        fuse, told = self._fuse, f"{type(self._part).__name__}.{name}"

        def plain(*args: Any, **kwargs: Any) -> Any:
            number = fuse.before(told)
            result = real(*args, **kwargs)
            fuse.behind(told, number)
            return result

        async def waiting(*args: Any, **kwargs: Any) -> Any:
            number = fuse.before(told)
            result = await real(*args, **kwargs)
            fuse.behind(told, number)
            return result

        return waiting if inspect.iscoroutinefunction(real) else plain


def fused_pipeline(tree: Mapping[str, Any], fuse: Fuse) -> PreparedPipeline:
    """A pipeline of real parts that loses its power where the fuse says, among all that makes things visible."""
    pipeline = make_pipeline(tree)
    parts = pipeline.stages
    parts.answers = Fused(parts.answers, fuse, "write", "flush")
    if parts.dead_letters is not None:
        parts.dead_letters = Fused(parts.dead_letters, fuse, "write", "flush")
    parts.store = Fused(parts.store, fuse, "save_commit", "save_snapshot", "remove_snapshot")
    return pipeline


def with_trouble(count: int, seed: int = 0) -> list[Event | bytes]:
    """A stream with bad inputs, duplicates and control events strewn in."""
    events: list[Event | bytes] = list(stream(count, seed))
    events[5] = b"{ this is no JSON"
    events[11] = FeatureEvent(id="short", features=[1.0])
    events[17] = events[3]
    events[23] = RenameCategory(id="r", category=1, label="bee")
    events[31] = MergeCategories(id="m", keep=0, absorb=2)
    events[37] = ForgetCategory(id="f", category=99)
    events[41] = FeatureEvent(id="far", features=[1e200, 0.0, 0.0])
    return events


def write_images(folder: Path, count: int) -> None:
    from PIL import Image

    rng = np.random.default_rng(0)
    for number in range(count):
        shade = (40, 200)[number % 2]
        pixels = np.clip(shade + rng.normal(scale=9, size=(6, 6)), 0, 255).astype(np.uint8)
        label = folder / ("dark", "light")[number % 2]
        label.mkdir(parents=True, exist_ok=True)
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, "PNG")
        (label / f"{number:03d}.png").write_bytes(buffer.getvalue())
