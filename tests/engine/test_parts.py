"""The stages of a task: each made once a seat, and only such as can be committed together."""

from dataclasses import replace

import msgspec
import pytest
from worlds import make_tree

from speciate.config import parse, resolve
from speciate.errors import ConfigError
from speciate.parts import Parts
from speciate.plugins import installed
from speciate.stages import Seat

HEADLESS = ("support", "density", "policy", "dead_letters")


def resolved(tree):
    return resolve(parse(tree), installed())


def headless(folder, *without):
    return {name: section for name, section in make_tree(folder).items() if name not in {*HEADLESS, *without}}


def transactional(resolution, *sections, interval_ms=100.0):
    """The same configuration with sinks that commit by themselves, so often."""
    commit = msgspec.structs.replace(resolution.config.commit, interval_ms=interval_ms)
    resolution = replace(resolution, config=msgspec.structs.replace(resolution.config, commit=commit))
    for section in sections:
        chosen = resolution.sections[section]

        def create_at(options, seat, create=chosen.provider.create):
            sink = create(options)
            sink.transactional, sink.seat = True, seat
            return sink

        resolution.sections[section] = replace(chosen, provider=replace(chosen.provider, create_at=create_at))
    return resolution


def test_every_stage_of_a_pipeline_that_decides_is_made(tmp_path):
    parts = Parts.of(resolved(make_tree(tmp_path)))
    assert list(parts.sinks) == [parts.answers, parts.dead_letters]
    assert parts.needed_store is parts.store
    assert parts.needed_dead_letters is parts.dead_letters
    assert parts.locate(7) == parts.dead_letters.locate(7) == f"{tmp_path}/out/dead.log#7"
    assert parts.encoder is None


def test_nothing_is_made_twice_for_two_seats(tmp_path):
    resolution = resolved(make_tree(tmp_path))
    one, other = Parts.of(resolution), Parts.of(resolution)
    for name in ("source", "answers", "dead_letters", "store"):
        assert getattr(one, name) is not getattr(other, name)


def test_an_encoder_may_serve_several_tasks(tmp_path):
    encoder = object()
    resolution = resolved(make_tree(tmp_path, encoder={"plugin": "thumbnail"}))
    assert all(Parts.of(resolution, Seat(), encoder).encoder is encoder for _ in range(2))


def test_the_seat_reaches_every_stage_that_keeps_tasks_apart(tmp_path):
    resolution = transactional(resolved(make_tree(tmp_path)), "sink", "dead_letters")
    seat = Seat(0, 1)
    parts = Parts.of(resolution, seat)
    assert parts.answers.seat is parts.dead_letters.seat is seat


def test_without_a_head_there_are_fewer(tmp_path):
    parts = Parts.of(resolved(headless(tmp_path)))
    assert parts.dead_letters is None
    assert list(parts.sinks) == [parts.answers]


def test_outputs_that_do_not_commit_by_themselves_need_a_store(tmp_path):
    with pytest.raises(ConfigError, match=r"no \[store\]: with \[sink\] .*answers\.jsonl it needs one"):
        Parts.of(resolved(headless(tmp_path, "store")))
    committed = transactional(resolved(headless(tmp_path, "store")), "sink")
    assert Parts.of(committed).store is None


@pytest.mark.parametrize("one", ["sink", "dead_letters"])
def test_outputs_that_cannot_be_committed_together_are_refused(tmp_path, one):
    with pytest.raises(ConfigError, match=r"answers\.jsonl and .*dead\.log cannot be committed together"):
        Parts.of(transactional(resolved(make_tree(tmp_path)), one))
    parts = Parts.of(transactional(resolved(make_tree(tmp_path)), "sink", "dead_letters"))
    assert all(sink.transactional for sink in parts.sinks)


@pytest.mark.parametrize(("interval_ms", "told"), [(30_000.0, False), (30_001.0, True)])
def test_a_commit_that_is_a_transaction_must_not_be_rare(tmp_path, interval_ms, told):
    """Whoever keeps a transaction open ends it after a while."""
    resolution = transactional(resolved(make_tree(tmp_path)), "sink", "dead_letters", interval_ms=interval_ms)
    if told:
        with pytest.raises(ConfigError, match=r"commit\.interval_ms is 30001: .* choose at most 30000"):
            Parts.of(resolution)
    else:
        assert Parts.of(resolution).answers.transactional
    patient = make_tree(tmp_path, commit={"interval_ms": interval_ms})
    assert Parts.of(resolved(patient)).store is not None, "files have no such limit"


def test_stages_that_cannot_keep_tasks_apart_are_told(tmp_path):
    with pytest.raises(ConfigError, match=r"source 'jsonl' cannot keep 3 tasks apart"):
        Parts.of(resolved(make_tree(tmp_path)), Seat(2, 3))
