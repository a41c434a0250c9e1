"""Hypothesis strategies for everything Speciate says: one for each struct of `speciate_schemas`."""

from typing import Any

import msgspec
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import speciate_schemas as schemas

DTYPES = (
    *("bool", "float16", "float32", "float64"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)

counts = st.integers(0, 2**63 - 1)
numbers = st.floats(allow_nan=False, allow_infinity=False)
"""JSON has no NaN and no infinity, so the laws that hold in both formats are about finite numbers."""
words = st.text(max_size=12)
names = st.text(min_size=1, max_size=12)
readable = names.filter(lambda text: text.isprintable() and not text.isspace())
blobs = st.binary(max_size=40).map(memoryview)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | numbers | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
options = st.dictionaries(words, plain, max_size=4)
positions = st.lists(st.integers(-(2**63), 2**63 - 1) | words, max_size=4).map(tuple)

ndarrays = npst.arrays(
    dtype=st.sampled_from(DTYPES).flatmap(
        lambda name: st.sampled_from([np.dtype(name), np.dtype(name).newbyteorder()])
    ),
    shape=npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
arrays = ndarrays.map(schemas.Array.of)
named_arrays = st.dictionaries(words, arrays, max_size=2)

common = {"id": names, "stream": words, "time": st.none() | numbers}
renames = st.builds(schemas.RenameCategory, **common, category=counts, label=readable)
merges = st.builds(schemas.MergeCategories, **common, keep=counts, absorb=counts)
forgets = st.builds(schemas.ForgetCategory, **common, category=counts)
undos = st.builds(schemas.UndoLast, **common)
relabels = st.builds(schemas.Relabel, category=counts, becomes=st.none() | counts, label=st.none() | names)
categories = st.builds(
    schemas.CategoryState, id=counts, label=st.none() | words, known=st.booleans(), count=counts, arrays=named_arrays
)
last_changes = st.builds(
    schemas.LastChange,
    kind=st.sampled_from(["rename", "merge", "forget"]),
    before=st.lists(categories, max_size=2),
    since=st.lists(arrays, max_size=2),
)
exemplars = st.builds(
    schemas.ExemplarsState,
    sequences=st.lists(counts, max_size=2),
    ids=st.lists(words, max_size=2),
    streams=st.lists(words, max_size=2),
    times=st.lists(st.none() | numbers, max_size=2),
    features=arrays,
    thumbnails=st.lists(st.none() | st.binary(max_size=8), max_size=2),
)
traces = st.builds(
    schemas.TraceState,
    id=counts,
    born=st.none() | counts,
    born_time=st.none() | numbers,
    seen=counts,
    last_sequence=st.none() | counts,
    last_time=st.none() | numbers,
    activity=st.lists(st.tuples(counts, counts), max_size=2),
    exemplars=st.none() | exemplars,
    trail_sequences=st.lists(counts, max_size=2),
    trail=st.none() | arrays,
)
timelines = st.builds(
    schemas.TimelineState,
    width=st.integers(1, 2**40),
    parts=arrays,
    counts=arrays,
    times=arrays,
)
changed_traces = st.builds(
    schemas.ChangedTraces,
    before=st.lists(traces, max_size=2),
    since=st.none() | exemplars,
)
chronicles = st.builds(
    schemas.ChronicleState,
    capacity=counts,
    seed=counts,
    timeline=timelines,
    traces=st.lists(traces, max_size=2),
    changed=st.none() | changed_traces,
)
recents = st.builds(
    schemas.RecentState, streams=st.lists(words, max_size=3), ids=st.lists(words, max_size=3), sequences=arrays
)
heads = st.builds(
    schemas.HeadState,
    density=names,
    policy=names,
    density_options=options,
    policy_options=options,
    dimension=st.integers(1, 2**31),
    version=counts,
    next_category=counts,
    shared=named_arrays,
    categories=st.lists(categories, max_size=2),
    last_change=st.none() | last_changes,
)
tallies = st.builds(
    schemas.Tally,
    assigned=counts,
    births=counts,
    rejected=counts,
    controls=counts,
    dropped=counts,
    forwarded=counts,
)
commits = st.builds(
    schemas.Commit,
    sequence=counts,
    source=st.none() | positions,
    answers=positions,
    dead_letters=positions,
    tally=tallies,
)
run_options = st.builds(
    schemas.RunOptions,
    batch_events=st.integers(1, 10**6),
    linger_ms=st.floats(0, 1e6),
    queue_events=st.integers(1, 10**6),
    queue_bytes=st.integers(1, 10**12),
    overflow=st.sampled_from(["block", "drop-oldest", "drop-newest"]),
    pace=st.sampled_from(["max", "original"]) | st.floats(0, 1e9, exclude_min=True),
    decode_workers=st.none() | st.integers(1, 64),
    encode_events=st.integers(1, 10**6),
    max_event_bytes=st.integers(1, 1 << 26),
    universe=st.sampled_from(["partition", "stream", "shared"]),
    standby=st.integers(0, 100),
    duplicate_window=st.integers(0, 10**9),
)
commit_options = st.builds(
    schemas.CommitOptions,
    events=st.integers(1, 10**6),
    interval_ms=st.floats(0, 1e6),
    snapshot_events=st.integers(1, 10**9),
    snapshots_kept=st.integers(2, 100),
)
album_options = st.builds(
    schemas.AlbumOptions,
    exemplars=st.integers(0, 1024),
    pictures=st.integers(0, 64),
    pixels=st.integers(16, 512),
    bytes=st.integers(1, 10**12),
    seed=st.integers(0, 2**32),
)
model_options = st.builds(schemas.ModelOptions, path=names)

fractions = st.floats(0, 1)
positive = st.integers(1, 2**31)
seeds = st.integers(0, 2**31)
few_words = st.lists(words, max_size=3).map(tuple)
whole_numbers = st.lists(counts, max_size=3)
support_rules = st.builds(
    schemas.SupportRule,
    rule=st.sampled_from(["pooled", "per-class"]),
    share=st.floats(0.001, 0.999),
    seed=st.none() | seeds,
    groups=few_words,
)
data_options = st.builds(
    schemas.DataOptions,
    features=st.none() | words,
    source=st.none() | options,
    arrays=st.none() | words,
    feature_key=words,
    label_key=words,
    split_key=st.none() | words,
    splits=few_words,
    group_key=st.none() | words,
)
known_classes = st.builds(
    schemas.KnownClasses,
    classes=st.lists(words | st.integers(-9, 9), max_size=3).map(tuple),
    first=st.none() | positive,
    file=st.none() | words,
    path=few_words,
)
orders = st.sampled_from(["recorded", "class-sorted", "random", "bursty"])
benchmarks = st.builds(
    schemas.BenchmarkConfig,
    title=words,
    data=data_options,
    known=known_classes,
    about=words,
    support=support_rules,
    order=orders,
    burst=positive,
    encoder=st.none() | options,
)
methods = st.builds(schemas.MethodConfig, title=words, density=options, policy=options, about=words)
shares = st.builds(schemas.Shares, all=st.none() | fractions, known=st.none() | fractions, novel=st.none() | fractions)
temporal_bins = st.builds(
    schemas.TemporalBin,
    events=counts,
    births=counts,
    false_birth_rate=st.none() | fractions,
    mean_drift=st.none() | numbers,
    mean_margin=st.none() | numbers,
)
growths = st.builds(schemas.Growth, events=whole_numbers, categories=whole_numbers, classes=whole_numbers)
timings = st.builds(
    schemas.Timing,
    batch=counts,
    fit_seconds=numbers,
    events_per_second=numbers,
    mean_ms=numbers,
    p50_ms=numbers,
    p99_ms=numbers,
    max_ms=numbers,
    histogram_ms=st.lists(numbers, max_size=3),
    histogram_counts=whole_numbers,
)
purities = st.builds(schemas.CategoryPurity, category=counts, events=counts, majority=words, purity=fractions)
run_metrics = st.builds(
    schemas.RunMetrics,
    strict=shares,
    greedy=shares,
    groups=st.dictionaries(words, shares, max_size=2),
    categories=counts,
    held=counts,
    classes=counts,
    births=counts,
    false_birth_rate=fractions,
    nmi=numbers,
    ari=numbers,
    purity=fractions,
    purities=st.lists(purities, max_size=2),
    bins=st.lists(temporal_bins, max_size=2),
    growth=growths,
    timing=timings,
    head_bytes=counts,
)
run_infos = st.builds(
    schemas.RunInfo,
    benchmark=words,
    benchmark_title=words,
    method=words,
    method_title=words,
    order=words,
    seed=seeds,
    burst=positive,
    density=options,
    policy=options,
    tuned=options,
    estimated=st.dictionaries(words, numbers, max_size=3),
    method_about=words,
    support=support_rules,
    workers=positive,
    support_events=counts,
    stream_events=counts,
    known_classes=counts,
    dimension=counts,
    data_sha256=words,
    decisions_sha256=words,
    versions=st.dictionaries(words, words, max_size=2),
    hardware=st.dictionaries(words, words, max_size=2),
    finished=words,
)

hashes = st.binary(min_size=32, max_size=32).map(bytes.hex)
file_names = st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,12}", fullmatch=True)
said = st.dictionaries(words, words, max_size=2)
measured = st.dictionaries(words, numbers, max_size=2)
epochs = st.builds(
    schemas.Epoch,
    number=positive,
    learning_rate=numbers,
    loss=numbers,
    held_loss=st.none() | numbers,
    held_accuracy=st.none() | fractions,
)
training_reports = st.builds(
    schemas.TrainingReport,
    options=options,
    epochs=st.lists(epochs, max_size=3),
    kept_epoch=counts,
    stopped_early=st.booleans(),
    images=counts,
    held_out=counts,
    classes=counts,
    parameters=counts,
    trunk_seconds=numbers,
    training_seconds=numbers,
)
support_cards = st.builds(
    schemas.SupportCard,
    source=options,
    events=counts,
    classes=st.dictionaries(words, counts, max_size=3),
    sha256=hashes,
)
cards = st.builds(
    schemas.Card,
    support=support_cards,
    training=st.none() | training_reports,
    estimated=measured,
    estimated_frozen=measured,
    policy=options,
    versions=said,
    hardware=said,
    created=words,
    seconds=numbers,
)
sealed_files = st.builds(schemas.SealedFile, bytes=counts, sha256=hashes)

STRATEGIES: dict[type[msgspec.Struct], st.SearchStrategy[Any]] = {
    schemas.Array: arrays,
    schemas.FeatureEvent: st.builds(
        schemas.FeatureEvent, **common, features=arrays | st.lists(numbers, max_size=5), label=st.none() | names
    ),
    schemas.ImageEvent: st.builds(schemas.ImageEvent, **common, image=blobs, media_type=words, label=st.none() | names),
    schemas.RenameCategory: renames,
    schemas.MergeCategories: merges,
    schemas.ForgetCategory: forgets,
    schemas.UndoLast: undos,
    schemas.Relabel: relabels,
    schemas.Assignment: st.builds(
        schemas.Assignment,
        id=names,
        stream=words,
        sequence=counts,
        category=counts,
        label=st.none() | names,
        birth=st.booleans(),
        log_evidence=numbers,
        margin=st.none() | numbers,
        probability=st.floats(0, 1),
        drift=st.none() | st.floats(0, 1e6),
        head_version=counts,
        origin=words,
    ),
    schemas.ControlApplied: st.builds(
        schemas.ControlApplied,
        id=names,
        stream=words,
        sequence=counts,
        control=renames | merges | forgets | undos,
        head_version=counts,
        origin=words,
        relabels=st.lists(relabels, max_size=2),
    ),
    schemas.Rejection: st.builds(
        schemas.Rejection,
        id=st.none() | names,
        stream=st.none() | words,
        sequence=counts,
        stage=words,
        error=words,
        message=words,
        dead_letter=words,
        origin=words,
    ),
    schemas.Refolded: st.builds(
        schemas.Refolded, sequence=counts, universe=words, tasks=positive, categories=counts, done=st.booleans()
    ),
    schemas.DeadLetter: st.builds(
        schemas.DeadLetter,
        id=st.none() | names,
        stream=st.none() | words,
        sequence=counts,
        stage=words,
        error=words,
        message=words,
        origin=words,
        original=blobs,
    ),
    schemas.CategoryState: categories,
    schemas.LastChange: last_changes,
    schemas.HeadState: heads,
    schemas.Tally: tallies,
    schemas.RecentState: recents,
    schemas.TaskState: st.builds(
        schemas.TaskState,
        sequence=counts,
        head=heads,
        recent=recents,
        streams=st.dictionaries(words, heads, max_size=2),
        chronicles=st.dictionaries(words, chronicles, max_size=1),
    ),
    schemas.ExemplarsState: exemplars,
    schemas.TraceState: traces,
    schemas.TimelineState: timelines,
    schemas.ChangedTraces: changed_traces,
    schemas.ChronicleState: chronicles,
    schemas.Commit: commits,
    schemas.SnapshotManifest: st.builds(
        schemas.SnapshotManifest,
        commit=commits,
        config=options,
        plugins=st.dictionaries(words, words, max_size=3),
        state_bytes=counts,
        state_sha256=words,
    ),
    schemas.RunOptions: run_options,
    schemas.CommitOptions: commit_options,
    schemas.AlbumOptions: album_options,
    schemas.ModelOptions: model_options,
    schemas.PipelineConfig: st.builds(
        schemas.PipelineConfig,
        source=options,
        density=st.none() | options,
        policy=st.none() | options,
        sink=options,
        dead_letters=st.none() | options,
        store=st.none() | options,
        support=st.none() | options,
        encoder=st.none() | options,
        model=st.none() | model_options,
        run=run_options,
        commit=commit_options,
        album=album_options,
    ),
    schemas.FitConfig: st.builds(
        schemas.FitConfig,
        support=options,
        density=options,
        policy=options,
        encoder=st.none() | options,
        training=st.none() | options,
    ),
    schemas.Epoch: epochs,
    schemas.TrainingReport: training_reports,
    schemas.SupportCard: support_cards,
    schemas.Card: cards,
    schemas.SealedFile: sealed_files,
    schemas.BundleManifest: st.builds(
        schemas.BundleManifest,
        sha256=hashes,
        encoder=st.none() | options,
        encoder_files=st.dictionaries(words, file_names, max_size=2),
        dimension=positive,
        files=st.dictionaries(file_names, sealed_files, max_size=2),
        fingerprint=hashes,
        plugins=said,
        card=cards,
    ),
    schemas.SupportRule: support_rules,
    schemas.DataOptions: data_options,
    schemas.KnownClasses: known_classes,
    schemas.BenchmarkConfig: benchmarks,
    schemas.MethodConfig: methods,
    schemas.ComparisonConfig: st.builds(
        schemas.ComparisonConfig,
        benchmarks=st.lists(words, min_size=1, max_size=3).map(tuple),
        methods=st.lists(words, min_size=1, max_size=3).map(tuple),
        title=words,
        orders=st.lists(orders, max_size=2).map(tuple),
        seeds=st.lists(seeds, min_size=1, max_size=3).map(tuple),
        sweep=st.dictionaries(
            words, st.lists(words | st.integers(-9, 9), min_size=1, max_size=2).map(tuple), max_size=2
        ),
    ),
    schemas.Shares: shares,
    schemas.TemporalBin: temporal_bins,
    schemas.Growth: growths,
    schemas.Timing: timings,
    schemas.CategoryPurity: purities,
    schemas.RunMetrics: run_metrics,
    schemas.RunInfo: run_infos,
    schemas.Recipe: st.builds(
        schemas.Recipe,
        benchmark=words,
        method=words,
        benchmark_config=benchmarks,
        method_config=methods,
        order=orders,
        seed=seeds,
        batch=positive,
    ),
    schemas.Run: st.builds(schemas.Run, info=run_infos, metrics=run_metrics),
}

WIRE = [kind for kind in STRATEGIES if kind.__struct_config__.tag_field == "type"]
"""The structs that carry their name and version."""
