"""A training holds out fairly, slows down along its cosine, keeps its best epoch, and goes on after a crash."""

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speciate.errors import ConfigError
from speciate_plugins.vision.training_options import TrainingOptions

torch = pytest.importorskip("torch")
pytest.importorskip("timm")

from speciate_plugins.vision.learning import Held, Learner  # noqa: E402 - after the check for torch
from speciate_plugins.vision.training import Training, hold_out, learning_rate  # noqa: E402

CLASSES = np.arange(30) % 3


class LinearTail:
    """As a `SplitModel`, but just a matrix."""

    def __init__(self):
        self.parameters = {"matrix": torch.nn.Parameter(torch.eye(4))}

    def tail(self, activations):
        return activations @ self.parameters["matrix"]


FROM_SCRATCH = {"learning_rate": 1.0, "classifier_factor": 1.0, "feature_length": 1.0}
"""The defaults are for weights that know something already."""


def a_learner(options):
    means = np.random.default_rng(0).normal(size=(3, 4))
    points = means[CLASSES][:, None, :] + np.random.default_rng(1).normal(0, 0.5, (30, 2, 4))
    return Learner(LinearTail(), torch.from_numpy(points.astype(np.float32)), CLASSES, options)


def a_training(path, key="key", **options):
    chosen = TrainingOptions(**{"epochs": 8, "batch_images": 7, "held_out": 0.2} | FROM_SCRATCH | options)
    learner = a_learner(chosen)
    return Training(learner, CLASSES, chosen, path / "checkpoint", key), learner


def ignore(*_):
    """Nobody watches."""


@given(counts=st.lists(st.integers(1, 30), min_size=1, max_size=8), share=st.floats(0, 0.5), seed=st.integers(0, 2**32))
def test_the_same_share_of_each_class_is_held_out(counts, share, seed):
    classes = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    trained, held = hold_out(classes, share, seed)
    assert sorted([*trained, *held]) == list(range(len(classes)))
    for one, count in enumerate(counts):
        apart = np.sum(classes[held] == one)
        assert abs(apart - share * count) <= 0.5 + 1e-9
        assert count - apart >= 1


def test_what_is_held_out_depends_on_the_seed_alone():
    assert np.array_equal(hold_out(CLASSES, 0.2, 1)[1], hold_out(CLASSES, 0.2, 1)[1])
    assert not np.array_equal(hold_out(CLASSES, 0.2, 1)[1], hold_out(CLASSES, 0.2, 2)[1])


def test_the_learning_rate_falls_along_half_a_cosine():
    options = TrainingOptions(epochs=5, learning_rate=1.0, final_learning_rate=0.2)
    rates = [learning_rate(options, epoch) for epoch in range(1, 6)]
    assert rates == pytest.approx([1.0, 0.6 + 0.4 * math.sqrt(0.5), 0.6, 0.6 - 0.4 * math.sqrt(0.5), 0.2])
    assert learning_rate(TrainingOptions(epochs=1, learning_rate=0.5), 1) == 0.5


def test_a_final_learning_rate_above_the_first_is_refused():
    with pytest.raises(msgspec.ValidationError, match=r"final_learning_rate = 0.5 is more than learning_rate = 0.1"):
        msgspec.convert({"learning_rate": 0.1, "final_learning_rate": 0.5}, TrainingOptions)


def test_the_best_epoch_is_kept_and_patience_ends_it(tmp_path):
    training, learner = a_training(tmp_path, epochs=9, patience=3)
    losses = iter([0.9, 0.5, 0.6, 0.7, 0.8])
    seen = []
    learner.judge = lambda *_: seen.append(learner.weights()) or Held(next(losses), 0.5)
    training.run(ignore)
    assert training.course.kept_epoch == 2
    assert len(training.course.epochs) == 5
    assert training.stopped_early
    assert torch.equal(learner.weights()["matrix"], seen[1]["matrix"])


def test_a_training_that_had_all_its_epochs_was_not_stopped(tmp_path):
    training, learner = a_training(tmp_path, epochs=5, patience=3)
    losses = iter([0.9, 0.5, 0.6, 0.7, 0.8])
    learner.judge = lambda *_: Held(next(losses), 0.5)
    training.run(ignore)
    assert (training.course.kept_epoch, len(training.course.epochs)) == (2, 5)
    assert not training.stopped_early


def test_if_no_epoch_beats_guessing_the_weights_stay_as_they_were(tmp_path):
    training, learner = a_training(tmp_path, epochs=3)
    learner.judge = lambda *_: Held(math.log(3) + 0.01, 0.3)
    training.run(ignore)
    assert training.course.kept_epoch == 0
    assert torch.equal(learner.weights()["matrix"], torch.eye(4))


def test_if_nothing_is_held_out_the_last_epoch_is_kept_and_that_is_said(tmp_path):
    training, learner = a_training(tmp_path, held_out=0.0, patience=1)
    words = []
    training.run(lambda done, of, word: words.append((done, of, word)))
    assert training.course.kept_epoch == 8
    assert not training.stopped_early
    assert [epoch.held_loss for epoch in training.course.epochs] == [None] * 8
    assert [done for done, _, _ in words] == list(range(9))
    assert all(of == 8 and word.endswith("nothing held out") for _, of, word in words)
    assert not torch.equal(learner.weights()["matrix"], torch.eye(4))


def test_the_classifier_learns_so_many_times_faster_from_features_of_that_length():
    steps = {}
    for factor, length in ((1.0, 1.0), (10.0, 1.0), (1.0, 8.0)):
        learner = a_learner(TrainingOptions(classifier_factor=factor, feature_length=length, batch_images=30))
        learner.learn(np.arange(30), 1, 0.1)
        steps[factor, length] = learner.weights()["classifier.weight"]
    # One step from a classifier that knows nothing: the gradient of its weights is as long as the features are.
    torch.testing.assert_close(steps[10.0, 1.0], 10 * steps[1.0, 1.0])
    torch.testing.assert_close(steps[1.0, 8.0], 8 * steps[1.0, 1.0])


@pytest.mark.parametrize("loss", ["ce", "ce+supcon"])
def test_it_learns(tmp_path, loss):
    training, _ = a_training(tmp_path, loss=loss, epochs=20)
    training.run(ignore)
    first, last = training.course.epochs[0], training.course.epochs[-1]
    assert last.loss < 0.6 * first.loss
    assert last.held_loss < 0.6 * math.log(3)
    assert last.held_accuracy >= 0.8


def test_the_contrast_counts_as_much_as_its_weight():
    features, classes = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 0, 1, 1, 2, 2])
    plain, light, heavy = (
        a_learner(TrainingOptions(loss="ce+supcon", supcon_weight=weight))._loss(features, classes).item()
        for weight in (0.0, 0.1, 0.3)
    )
    assert plain == pytest.approx(math.log(3))
    assert heavy - plain == pytest.approx(3 * (light - plain))
    assert light > plain


class StoppedError(Exception):
    """As if killed."""


@pytest.mark.parametrize("after", [1, 5, 8])
@pytest.mark.parametrize("loss", ["ce", "ce+supcon"])
def test_a_training_that_was_interrupted_ends_as_if_it_had_not_been(tmp_path, after, loss):
    (tmp_path / "whole").mkdir()
    whole, expected = a_training(tmp_path / "whole", loss=loss)
    whole.run(ignore)

    def stop(done, *_):
        if done == after:
            raise StoppedError

    with pytest.raises(StoppedError):
        a_training(tmp_path, loss=loss)[0].run(stop)
    resumed, learner = a_training(tmp_path, loss=loss)
    began = []
    resumed.run(lambda done, *_: began.append(done))
    assert began[0] == after
    assert resumed.course.epochs == whole.course.epochs
    assert resumed.course.kept_epoch == whole.course.kept_epoch
    assert all(torch.equal(tensor, expected.weights()[name]) for name, tensor in learner.weights().items())


@pytest.mark.parametrize("damage", ["another", "cut", "junk"])
def test_a_checkpoint_of_no_use_is_not_used(tmp_path, damage):
    training, _ = a_training(tmp_path)
    training.run(ignore)
    file = tmp_path / "checkpoint"
    data = file.read_bytes()
    file.write_bytes({"another": data, "cut": data[: len(data) // 2], "junk": b"junk"}[damage])
    again, _ = a_training(tmp_path, key="another" if damage == "another" else "key")
    began = []
    again.run(lambda done, *_: began.append(done))
    assert began == list(range(9))
    assert again.course.epochs == training.course.epochs


def test_a_loss_that_is_no_number_is_an_error_that_tells_what_to_change(tmp_path):
    training, _ = a_training(tmp_path, learning_rate=1e30)
    with pytest.raises(ConfigError, match=r"the loss is (nan|inf) in epoch \d.*training.learning_rate is too high"):
        training.run(ignore)
