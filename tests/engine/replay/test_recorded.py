"""Reading benchmarks, and refusing bad ones with the reason."""

import numpy as np
import pytest

from benches import bench, write_bench
from speciate.errors import ConfigError
from speciate.plugins import installed
from speciate.replay.recorded import load_recorded
from speciate_schemas import DataOptions, KnownClasses, SupportRule


def load(folder, config):
    return load_recorded("made", config, folder, installed())


def test_features_labels_and_known_classes_are_read(tmp_path):
    recorded = load(write_bench(tmp_path), bench())
    assert recorded.names == ["a", "b", "c", "d", "e"]
    assert recorded.known.tolist() == [True, True, True, False, False]
    assert recorded.classes.tolist() == list(range(5)) * 12
    assert recorded.events.tolist() == list(range(60))
    assert recorded.groups is None
    assert recorded.dimension == 4


def test_a_split_leaves_out_the_other_events(tmp_path):
    recorded = load(
        write_bench(tmp_path), bench(data=DataOptions(features="made-*.npz", split_key="split", splits=("train",)))
    )
    assert recorded.events.tolist() == [place for place in range(60) if place % 10]
    assert recorded.classes.tolist() == [place % 5 for place in range(60) if place % 10]


def test_groups_are_read(tmp_path):
    recorded = load(write_bench(tmp_path), bench(data=DataOptions(features="made-*.npz", group_key="domain")))
    places, names = recorded.groups
    assert names == ["real", "sketch"]
    assert places.tolist() == [place // 5 % 2 for place in range(60)]


@pytest.mark.parametrize(
    "known",
    [
        KnownClasses(first=3),
        KnownClasses(file="splits.json", path=("made", "known")),
        KnownClasses(classes=("a", "b", "c")),
    ],
)
def test_known_classes_may_be_listed_counted_or_looked_up(tmp_path, known):
    assert load(write_bench(tmp_path), bench(known=known)).known.tolist() == [True, True, True, False, False]


def test_features_of_their_own_file_are_never_read_whole(tmp_path):
    write_bench(tmp_path)
    with np.load(tmp_path / "made-features.npz") as file:
        np.save(tmp_path / "large.npy", file["features"])
    recorded = load(tmp_path, bench(data=DataOptions(features="large.npy", arrays="made-*.npz")))
    assert isinstance(recorded.features, np.memmap)
    assert recorded.classes.tolist() == list(range(5)) * 12


def test_any_source_of_labelled_events_will_do(tmp_path):
    write_bench(tmp_path)
    source = {"plugin": "npz", "paths": ["made-features.npz"], "labels": "labels"}
    recorded = load(tmp_path, bench(data=DataOptions(source=source)))
    assert recorded.names == ["a", "b", "c", "d", "e"]
    np.testing.assert_allclose(recorded.features, load(tmp_path, bench()).features)


LABELS = np.array([chr(ord("a") + place % 5) for place in range(60)])


@pytest.mark.parametrize(
    ("changes", "config", "reason"),
    [
        ({"labels": None}, {}, r"made-features.npz has no array 'labels': it has features, split, domain"),
        ({"labels": LABELS[:59]}, {}, r"60 rows of features but 59 labels"),
        ({"labels": np.linspace(0, 1, 60)}, {}, r"labels are float64 of shape \(60,\): give one text or whole number"),
        ({"labels": np.array(["a"] * 60)}, {"known": KnownClasses(classes=("a",))}, r"'a' is the only class"),
        ({"features": np.zeros(60)}, {}, r"features are float64 of shape \(60,\): they must be a matrix"),
        ({"features": np.array([["x"] * 4] * 60)}, {}, r"features are <U1 of shape \(60, 4\)"),
        (
            {},
            {"known": KnownClasses(classes=("a", "z"))},
            r"the known class 'z' has no event here: the classes are a, b",
        ),
        ({}, {"known": KnownClasses()}, r"\[known\] needs one of classes, first and file"),
        ({}, {"known": KnownClasses(classes=("a",), first=1)}, r"\[known\] needs one of classes, first and file"),
        ({}, {"known": KnownClasses(file="splits.json", path=("made", "novel"))}, r"splits.json has no list of known"),
        ({}, {"known": KnownClasses(file="splits.json", path=("made",))}, r"splits.json has dict at made, not a list"),
        ({}, {"known": KnownClasses(first=5)}, r"all 5 classes are known"),
        ({}, {"support": SupportRule(groups=("real",))}, r"\[support\] groups needs \[data\] group_key"),
        ({}, {"data": DataOptions(features="")}, r"\[data\] needs either features or source"),
        (
            {},
            {"data": DataOptions(source={"plugin": "npz", "paths": ["x.npz"]}, splits=("train",))},
            r"\[data\] splits goes with features, not with source",
        ),
        ({}, {"data": DataOptions(features="/nowhere/made.npz")}, r"there is no /nowhere/made.npz in"),
        ({}, {"data": DataOptions()}, r"\[data\] needs either features or source"),
        ({}, {"data": DataOptions(features="made-*.npz", splits=("train",))}, r"\[data\] splits needs split_key"),
        (
            {},
            {"data": DataOptions(features="made-*.npz", split_key="split", splits=("dev",))},
            r"no event is of the splits dev",
        ),
        (
            {},
            {"data": DataOptions(features="made-*.npz", group_key="domain"), "support": SupportRule(groups=("clip",))},
            r"\[support\] group 'clip' has no event: the groups are real, sketch",
        ),
    ],
)
def test_a_bad_benchmark_is_refused_with_the_reason(tmp_path, changes, config, reason):
    write_bench(tmp_path, **changes)
    with pytest.raises(ConfigError, match=rf"^benchmark 'made': {reason}"):
        load(tmp_path, bench(**config))


def test_data_that_is_not_there_is_one_line_that_says_what_to_put_where(tmp_path):
    with pytest.raises(ConfigError, match=r"there is no made-\*.npz in .* \(Made by the tests\.\)$") as caught:
        load(tmp_path, bench())
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match=r"there is no data folder .*: give it with --data"):
        load(tmp_path / "nowhere", bench())


def test_two_files_of_one_pattern_are_refused(tmp_path):
    write_bench(tmp_path)
    (tmp_path / "made-other.npz").write_bytes((tmp_path / "made-features.npz").read_bytes())
    with pytest.raises(ConfigError, match=r"made-\*.npz is 2 files"):
        load(tmp_path, bench())


def test_python_objects_are_never_unpickled(tmp_path):
    write_bench(tmp_path, labels=np.array([object()] * 60, dtype=object))
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path, bench())


def test_labels_of_bytes_are_text(tmp_path):
    recorded = load(write_bench(tmp_path, labels=LABELS.astype("S1")), bench())
    assert recorded.names == ["a", "b", "c", "d", "e"]


def test_splits_may_be_numbers(tmp_path):
    split = np.arange(60) % 2
    data = DataOptions(features="made-*.npz", split_key="split", splits=("1",))
    assert load(write_bench(tmp_path, split=split), bench(data=data)).events.tolist() == list(range(1, 60, 2))


def test_a_row_that_is_no_number_is_named_before_anything_runs(tmp_path):
    features = np.ones((60, 4))
    features[37, 2] = np.nan
    with pytest.raises(ConfigError, match="row 37 of the features holds NaN or infinity"):
        load(write_bench(tmp_path, features=features), bench())


def test_a_file_cut_short_is_told(tmp_path):
    path = write_bench(tmp_path) / "made-features.npz"
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ConfigError, match=r"made-features.npz cannot be read"):
        load(tmp_path, bench())


def test_the_fingerprint_is_that_of_everything_used(tmp_path):
    same = [load(write_bench(tmp_path / name), bench()).fingerprint for name in ("one", "two")]
    assert same[0] == same[1]
    other = load(write_bench(tmp_path / "two"), bench(known=KnownClasses(first=2))).fingerprint
    labels = np.roll(LABELS, 1)
    moved = load(write_bench(tmp_path / "three", labels=labels), bench()).fingerprint
    assert len({same[0], other, moved}) == 3
