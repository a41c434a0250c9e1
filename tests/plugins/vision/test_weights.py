"""Files with weights, as they are found in the world, and those that must be refused."""

import os
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from speciate.errors import ConfigError

torch = pytest.importorskip("torch")
timm = pytest.importorskip("timm")

import huggingface_hub  # noqa: E402
import safetensors.torch  # noqa: E402

from speciate_plugins.vision import weights  # noqa: E402

MODEL = "test_resnet"


@pytest.fixture(scope="module")
def given_weights():
    """A whole model's, classifier included."""
    return timm.create_model(MODEL, pretrained=False).state_dict()


@pytest.fixture
def backbone():
    return timm.create_model(MODEL, pretrained=False, num_classes=0)


def same(backbone, tensors) -> bool:
    return all(torch.equal(tensor, tensors[name]) for name, tensor in backbone.state_dict().items())


@pytest.mark.parametrize("ending", [".safetensors", ".pth", ".pt", ".bin"])
def test_every_kind_of_file(ending, tmp_path, backbone, given_weights) -> None:
    path = tmp_path / f"file{ending}"
    (safetensors.torch.save_file if ending == ".safetensors" else torch.save)(given_weights, path)
    assert not same(backbone, given_weights)
    weights.fit(backbone, weights.read(path), str(path))
    assert same(backbone, given_weights)


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    wrappers=st.lists(st.sampled_from(weights.WRAPPERS), max_size=2),
    prefix=st.sampled_from(weights.PREFIXES),
    extras=st.tuples(st.booleans(), st.booleans()),
)
def test_the_ways_of_training_programs(wrappers, prefix, extras, tmp_path, given_weights) -> None:
    head, counters = extras
    backbone = timm.create_model(MODEL, pretrained=False, num_classes=0)
    content = {
        prefix + name: tensor
        for name, tensor in given_weights.items()
        if (counters or not name.endswith("num_batches_tracked")) and not (name.startswith("fc.") and not head)
    }
    if prefix and head:
        content["head.mlp.weight"] = torch.zeros(3)
    for wrapper in wrappers:
        content = {wrapper: content, "epoch": 3}
    torch.save(content, tmp_path / "file.pth")
    weights.fit(backbone, weights.read(tmp_path / "file.pth"), "file.pth")
    assert same(backbone, given_weights)


def test_a_classifier_of_several_layers(tmp_path) -> None:
    backbone = timm.create_model("efficientvit_m0", pretrained=False, num_classes=0)
    whole = timm.create_model("efficientvit_m0", pretrained=False).state_dict()
    assert {"head.bn.weight", "head.linear.weight"} <= whole.keys()
    weights.fit(backbone, whole, "whole.pth")
    assert same(backbone, whole)


def test_what_does_not_fit_is_said_in_one_sentence(backbone, given_weights) -> None:
    other = dict(given_weights)
    first, *_ = (name for name in other if name.endswith("conv1.weight"))
    other[first] = torch.zeros(1, 2)
    del other["bn1.weight"]
    other["more.weight"] = torch.zeros(1)
    with pytest.raises(ConfigError) as caught:
        weights.fit(backbone, other, "some.pth")
    message = str(caught.value)
    wanted = tuple(given_weights[first].shape)
    assert "missing: bn1.weight" in message
    assert "unexpected: more.weight" in message
    assert f"of another shape: {first} (1, 2) where {wanted} is wanted" in message
    assert "'some.pth'" in message
    assert "\n" not in message


def test_the_weights_of_quite_another_model_make_no_endless_message(backbone) -> None:
    other = timm.create_model("test_vit", pretrained=False).state_dict()
    with pytest.raises(ConfigError, match=r"and \d+ more; unexpected: .* and \d+ more") as caught:
        weights.fit(backbone, other, "vit.pth")
    assert len(str(caught.value)) < 600


def test_two_models_in_one_file_are_refused(backbone, given_weights, tmp_path) -> None:
    twice = {prefix + name: tensor for prefix in ("module.", "backbone.") for name, tensor in given_weights.items()}
    with pytest.raises(ConfigError, match="in several ways"):
        weights.fit(backbone, twice, "twice.pth")
    torch.save({"state_dict": given_weights, "model": given_weights}, tmp_path / "twice.pth")
    with pytest.raises(ConfigError, match="twice, as state_dict and as model"):
        weights.read(tmp_path / "twice.pth")


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_nothing_is_executed(tmp_path) -> None:
    torch.save({"weight": torch.zeros(1), "trap": Trap(str(tmp_path / "was-run"))}, tmp_path / "file.pth")
    with pytest.raises(ConfigError, match=r"cannot be read.*save the tensors alone"):
        weights.read(tmp_path / "file.pth")
    assert not (tmp_path / "was-run").exists()


@pytest.mark.parametrize("ending", [".safetensors", ".pth"])
@pytest.mark.parametrize("content", [b"", b"nothing of the kind", b"\x80\x02}", b"\x80\x02K\x01.", b"\x80\x02q\x00."])
def test_damaged_files(ending, content, tmp_path) -> None:
    path = tmp_path / f"damaged{ending}"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="damaged") as caught:
        weights.read(path)
    assert "\n" not in str(caught.value)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.dictionaries(st.integers(0, 2000), st.integers(0, 255), min_size=1, max_size=4), kept=st.floats(0, 2))
def test_damage_gives_tensors_or_one_sentence(changes, kept, tmp_path) -> None:
    for ending, save in ((".pth", torch.save), (".safetensors", safetensors.torch.save_file)):
        path = tmp_path / f"file{ending}"
        save({"x": torch.zeros(3)}, path)
        damaged = bytearray(path.read_bytes())
        for place, value in changes.items():
            damaged[place % len(damaged)] = value
        path.write_bytes(damaged[: round(len(damaged) * min(kept, 1))])
        try:
            tensors = weights.read(path)
        except ConfigError as error:
            assert str(path) in str(error)  # noqa: PT017 - either is right
        else:
            assert all(isinstance(tensor, torch.Tensor) for tensor in tensors.values())


def test_files_that_are_not_there_or_no_weights(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"no file '.*absent.pth'"):
        weights.read(tmp_path / "absent.pth")
    (tmp_path / "weights.onnx").touch()
    with pytest.raises(ConfigError, match=r"the ending '.onnx'; known are .safetensors, .pth"):
        weights.read(tmp_path / "weights.onnx")
    torch.save([torch.zeros(1)], tmp_path / "list.pth")
    with pytest.raises(ConfigError, match="no mapping of names to tensors"):
        weights.read(tmp_path / "list.pth")


def test_a_hub_out_of_reach_is_one_sentence_and_soon(monkeypatch, tmp_path) -> None:
    def away(*_, **__):
        raise ConnectionError("the network is down\nmore of it")

    monkeypatch.setattr(huggingface_hub, "get_session", away)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    started = time.monotonic()
    with pytest.raises(ConfigError) as caught:
        weights.pretrained("vit_base_patch16_224.dino")
    assert time.monotonic() - started < 10
    assert str(caught.value) == (
        "weights of vit_base_patch16_224.dino cannot be fetched (ConnectionError: the network is down): "
        "give weights = …, or pretrained = false for random ones"
    )


def cached(monkeypatch, path) -> list:
    """Have this file in the hub's cache, and no network."""

    def away(*_, **__):
        raise AssertionError("the network was asked")

    asked = []
    monkeypatch.setattr(huggingface_hub, "get_session", away)
    monkeypatch.setattr(
        huggingface_hub,
        "try_to_load_from_cache",
        lambda repo, name: asked.append((repo, name)) or (str(path) if name == path.name else None),
    )
    return asked


def test_what_was_fetched_earlier_needs_no_network(monkeypatch, tmp_path, given_weights) -> None:
    path = tmp_path / "model.safetensors"
    safetensors.torch.save_file(given_weights, path)
    asked = cached(monkeypatch, path)
    backbone, origin = weights.pretrained(MODEL)
    assert origin == str(path)
    assert asked == [(timm.get_pretrained_cfg(MODEL).hf_hub_id, "model.safetensors")]
    assert same(backbone, given_weights)


def test_what_was_fetched_earlier_is_not_executed_either(monkeypatch, tmp_path) -> None:
    path = tmp_path / "pytorch_model.bin"
    torch.save({"weight": torch.zeros(1), "trap": Trap(str(tmp_path / "was-run"))}, path)
    cached(monkeypatch, path)
    with pytest.raises(ConfigError, match="save the tensors alone"):
        weights.pretrained(MODEL)
    assert not (tmp_path / "was-run").exists()


def test_what_was_fetched_in_part_is_refused(monkeypatch, tmp_path, given_weights) -> None:
    path = tmp_path / "pytorch_model.bin"
    torch.save({name: tensor for name, tensor in given_weights.items() if not name.startswith("layer4")}, path)
    cached(monkeypatch, path)
    with pytest.raises(ConfigError, match=r"do not fit the model: missing: layer4.* and \d+ more"):
        weights.pretrained(MODEL)


@pytest.mark.parametrize(("name", "found"), [("model.safetensors", True), ("pytorch_model.bin", False)])
def test_what_is_fetched_is_read_here(name, found, monkeypatch, tmp_path, given_weights) -> None:
    """Hubs have both kinds of files; timm's own reader is not asked."""
    (safetensors.torch.save_file if found else torch.save)(given_weights, tmp_path / name)
    asked = []

    def download(repo, name):
        asked.append(name)
        if not (tmp_path / name).exists():
            raise huggingface_hub.errors.EntryNotFoundError("there is no such file")
        return str(tmp_path / name)

    monkeypatch.setattr(weights, "_look_for_hub", lambda: None)
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_: None)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    backbone, _ = weights.pretrained(MODEL)
    assert same(backbone, given_weights)
    assert asked == list(weights.HUB_FILES[: 1 if found else 2])


def test_names_that_timm_knows_how_to_change(monkeypatch, tmp_path) -> None:
    """As a model trained beside one of texts is published."""
    whole = timm.create_model("test_vit", pretrained=False, num_classes=0).state_dict()
    path = tmp_path / "model.safetensors"
    published = {f"visual.trunk.{name}": tensor for name, tensor in whole.items()} | {"text.bias": torch.zeros(2)}
    safetensors.torch.save_file(published, path)
    cached(monkeypatch, path)
    backbone, _ = weights.pretrained("test_vit")
    assert same(backbone, whole)
    del published["visual.trunk.norm.bias"]
    safetensors.torch.save_file(published, path)
    with pytest.raises(ConfigError, match=r"do not fit the model: missing: norm\.bias"):
        weights.pretrained("test_vit")


def test_weights_that_are_not_on_the_hub_must_be_complete(monkeypatch) -> None:
    """There timm reads them; it is asked for the classifier, too, since it looks for nothing missing otherwise."""
    model = "legacy_seresnet18"
    whole = timm.create_model(model, pretrained=False).state_dict()
    asked = []

    def load(url, **options):
        asked.append(options["weights_only"])
        return dict(whole)

    monkeypatch.setattr("timm.models._builder.load_state_dict_from_url", load)
    backbone, origin = weights.pretrained(model)
    assert same(backbone, whole)
    assert backbone.num_classes == 0
    assert origin == timm.get_pretrained_cfg(model).url
    del whole["layer4.1.conv2.weight"]
    with pytest.raises(ConfigError, match="cannot be fetched"):
        weights.pretrained(model)
    assert asked == [True, True]


def test_a_model_without_published_weights() -> None:
    with pytest.raises(ConfigError, match="no weights of botnet50ts_256 were published: give weights"):
        weights.pretrained("botnet50ts_256")
