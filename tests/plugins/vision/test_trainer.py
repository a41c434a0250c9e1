"""The trainer of the encoder `timm`: it learns, it survives being killed, and the encoder gives what it gave."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest

from speciate.errors import ConfigError, OutputError, SupportError
from speciate_plugins.vision.options import TimmOptions
from speciate_plugins.vision.training_options import TrainingOptions

torch = pytest.importorskip("torch")
pytest.importorskip("timm")
pytest.importorskip("simplejpeg")

from tinted_images import tinted_events  # noqa: E402 - after the checks

from speciate_plugins.encoders.timm import TimmEncoder, speciate_encoder  # noqa: E402
from speciate_plugins.vision.trainer import TimmTrainer  # noqa: E402

ENCODER = TimmOptions(model="test_vit", pretrained=False, device="cpu")
QUICK = TrainingOptions(epochs=6, batch_images=16, patience=50)


def a_trainer(folder, training=QUICK, encoder=ENCODER, count=40):
    """One that has observed so many images, and their classes."""
    trainer = TimmTrainer(encoder, training, folder)
    events, classes = tinted_events(count, 0)
    while trainer.observed < count:
        trainer.observe([trainer.prepare(event) for event in events[trainer.observed :][:16]])
    return trainer, classes


def ignore(*_):
    """Nobody watches."""


def nearest_mean(support, classes, features):
    means = np.stack([support[classes == one].mean(axis=0) for one in np.unique(classes)])
    return np.linalg.norm(features[:, None] - means, axis=2).argmin(axis=1)


def test_what_was_trained_is_saved_for_the_encoder_and_tells_classes_apart_better(tmp_path):
    # The defaults are for weights that know something already.
    fast = {"learning_rate": 1.0, "classifier_factor": 1.0, "feature_length": 1.0}
    options = TrainingOptions(epochs=12, batch_images=16, held_out=0.2, **fast)
    trainer, classes = a_trainer(tmp_path / "work", options, count=60)
    report = trainer.train(classes, ignore)
    assert (report.images, report.held_out, report.classes) == (48, 12, 4)
    assert report.epochs[-1].loss < 0.3 * report.epochs[0].loss
    assert 0 < report.parameters < 100_000
    assert report.trunk_seconds > 0
    assert report.training_seconds > 0

    [(option, name)] = trainer.save(tmp_path).items()
    trained = TimmEncoder(TimmOptions(model="test_vit", device="cpu", **{option: str(tmp_path / name)}))
    frozen = TimmEncoder(ENCODER)
    support, _ = tinted_events(60, 0)
    for encoder, features in ((trained, trainer.features()), (frozen, trainer.frozen_features())):
        encoder.load()
        encoded = encoder.encode([encoder.prepare(event) for event in support])
        np.testing.assert_allclose(features, encoded, rtol=0, atol=1e-5 * np.abs(encoded).max())

    events, truth = tinted_events(40, 1)
    right = {
        encoder: np.mean(nearest_mean(kept, classes, encoder.encode([encoder.prepare(e) for e in events])) == truth)
        for encoder, kept in ((trained, trainer.features()), (frozen, trainer.frozen_features()))
    }
    assert right[trained] >= 0.9
    assert right[trained] > right[frozen] + 0.2


def test_a_training_that_was_interrupted_saves_the_same_weights(tmp_path):
    whole, classes = a_trainer(tmp_path / "whole")
    report = whole.train(classes, ignore)

    def stop(done, *_):
        if done == 3:
            raise KeyboardInterrupt

    broken, _ = a_trainer(tmp_path / "broken")
    with pytest.raises(KeyboardInterrupt):
        broken.train(classes, stop)
    resumed, _ = a_trainer(tmp_path / "broken")
    began = []
    again = resumed.train(classes, lambda done, *_: began.append(done))
    assert began == [3, 4, 5, 6]
    assert again.epochs == report.epochs
    assert_same(whole, resumed, tmp_path)


def assert_same(one, other, folder):
    assert np.array_equal(one.features(), other.features())
    saved = []
    for number, trainer in enumerate((one, other)):
        (folder / str(number)).mkdir()
        saved.append((folder / str(number) / trainer.save(folder / str(number))["weights"]).read_bytes())
    assert saved[0] == saved[1]


CHILD = """
import sys, time, warnings
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import torch
torch.set_num_threads(1)
from test_trainer import a_trainer
trainer, classes = a_trainer(Path(sys.argv[2]))
print("observed", flush=True)
def slowly(done, of, word):
    print(done, flush=True)
    time.sleep(30 if done >= 2 else 0)
trainer.train(classes, slowly)
"""


def test_a_process_that_was_killed_is_gone_on_with_bit_for_bit(tmp_path):
    command = [sys.executable, "-c", CHILD, str(Path(__file__).parent), str(tmp_path / "killed")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        for line in child.stdout:
            if line.strip() == "2":
                time.sleep(0.2)
                os.kill(child.pid, signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL
    killed, classes = a_trainer(tmp_path / "killed")
    began = []
    killed.train(classes, lambda done, *_: began.append(done))
    assert began[0] >= 2
    whole, _ = a_trainer(tmp_path / "whole")
    whole.train(classes, ignore)
    assert_same(killed, whole, tmp_path)


def test_what_was_observed_before_counts_if_it_is_of_the_same_encoder(tmp_path):
    first, _ = a_trainer(tmp_path, count=20)
    assert TimmTrainer(ENCODER, QUICK, tmp_path).observed == 20
    slower = TrainingOptions(learning_rate=0.5)
    assert TimmTrainer(ENCODER, slower, tmp_path).observed == 20
    for other in (TrainingOptions(blocks=2), TrainingOptions(mirror=False), None):
        assert TimmTrainer(ENCODER, other, tmp_path).observed == 0
    first.save(tmp_path)
    same = TimmOptions(model="test_vit", weights=str(tmp_path / "encoder.safetensors"), pretrained=False, device="cpu")
    assert TimmTrainer(same, QUICK, tmp_path).observed == 20


def test_other_labels_are_another_training(tmp_path):
    trainer, classes = a_trainer(tmp_path)
    trainer.train(classes, ignore)
    one = trainer.features()
    other = trainer.train(classes // 2, ignore)
    assert other.classes == 2
    assert not np.array_equal(trainer.features(), one)
    trainer.train(classes, ignore)
    assert np.array_equal(trainer.features(), one)


def test_training_changes_nothing_in_the_trunk(tmp_path):
    trainer, classes = a_trainer(tmp_path)
    before = {name: tensor.clone() for name, tensor in trainer._model.state_dict().items()}
    frozen = trainer.frozen_features()
    trainer.train(classes, ignore)
    trainer.features()
    changed = {name for name, tensor in trainer._model.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed
    assert all(name.startswith(("backbone.blocks.5.", "backbone.norm.")) for name in changed)
    assert np.array_equal(trainer.frozen_features(), frozen)


@pytest.mark.parametrize("model", ["test_vit", "test_efficientnet"])
@pytest.mark.parametrize("training", [None, QUICK])
def test_features_have_the_precision_that_the_encoder_runs_in(model, training, tmp_path):
    options = msgspec.structs.replace(ENCODER, model=model, precision="bfloat16")
    trainer, classes = a_trainer(tmp_path / "coarse", training, options, count=16)
    events, _ = tinted_events(16, 0)

    def encoded(options):
        encoder = TimmEncoder(options)
        encoder.load()
        return encoder.encode([encoder.prepare(event) for event in events])

    assert_near(trainer.frozen_features(), encoded(options))
    exact, _ = a_trainer(tmp_path / "exact", training, msgspec.structs.replace(options, precision="float32"), count=16)
    assert np.abs(exact.frozen_features() - trainer.frozen_features()).max() > 1e-3 * np.abs(exact.features()).max()
    if training is not None:
        trainer.train(classes, ignore)
        assert not np.array_equal(trainer.features(), trainer.frozen_features())
        weights = str(tmp_path / trainer.save(tmp_path)["weights"])
        assert_near(trainer.features(), encoded(msgspec.structs.replace(options, weights=weights)))


def assert_near(features, encoded):
    np.testing.assert_allclose(features, encoded, rtol=0, atol=1e-5 * np.abs(encoded).max())


def test_activations_of_another_precision_are_of_no_use(tmp_path):
    a_trainer(tmp_path, count=4)
    for precision, observed in (("float32", 4), ("bfloat16", 0)):
        options = msgspec.structs.replace(ENCODER, precision=precision)
        assert TimmTrainer(options, QUICK, tmp_path).observed == observed


def test_weights_that_cannot_be_written_are_named(tmp_path):
    trainer = TimmTrainer(ENCODER, None, tmp_path)
    with pytest.raises(OutputError, match=r"cannot write .*absent/encoder.safetensors: No such file"):
        trainer.save(tmp_path / "absent")


def test_without_training_options_it_encodes_and_saves_any_model(tmp_path):
    options = TimmOptions(model="regnetx_002", pretrained=False, device="cpu")
    trainer, classes = a_trainer(tmp_path, training=None, encoder=options, count=5)
    encoder = TimmEncoder(options)
    encoder.load()
    events, _ = tinted_events(5, 0)
    encoded = encoder.encode([encoder.prepare(event) for event in events])
    np.testing.assert_allclose(trainer.features(), encoded, rtol=0, atol=1e-5 * np.abs(encoded).max())
    assert np.array_equal(trainer.features(), trainer.frozen_features())
    assert (tmp_path / trainer.save(tmp_path)["weights"]).stat().st_size > 1_000_000
    with pytest.raises(ConfigError, match=r"no section \[training\]"):
        trainer.train(classes, ignore)


@pytest.mark.parametrize("classes", [np.zeros(8, dtype=np.int64), np.arange(7)])
def test_labels_that_cannot_be_learnt_are_refused(tmp_path, classes):
    trainer, _ = a_trainer(tmp_path, count=8)
    with pytest.raises(SupportError, match=r"8 images were taken in, and \d labels of \d classes"):
        trainer.train(classes, ignore)


def test_the_encoder_says_how_it_is_trained(tmp_path):
    provider = speciate_encoder()
    assert provider.training is TrainingOptions
    trainer = provider.trainer(ENCODER, QUICK, tmp_path)
    assert trainer.observed == 0
    assert trainer.features().shape == (0, 64)
