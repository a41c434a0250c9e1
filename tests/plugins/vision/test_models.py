"""Feature models: pooling, projection, weights that come back, and settings that cannot be met."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speciate.errors import ConfigError

torch = pytest.importorskip("torch")
timm = pytest.importorskip("timm")

import safetensors.torch  # noqa: E402

from speciate_plugins.vision.models import FeatureModel, build, find_device, find_precision, save_weights  # noqa: E402
from speciate_plugins.vision.options import TimmOptions  # noqa: E402


def random(model: str, **options) -> FeatureModel:
    return build(TimmOptions(model=model, pretrained=False, **options))


def images(model: FeatureModel, count: int = 2):
    rng = np.random.default_rng(count)
    return torch.from_numpy(rng.integers(0, 256, (count, 3, *model.view.size), dtype=np.uint8))


@torch.inference_mode()
def features(model: FeatureModel):
    return model(images(model))


@pytest.fixture(scope="module")
def vit() -> FeatureModel:
    return random("test_vit")


def test_features_are_those_of_timm_behind_its_own_normalisation(vit) -> None:
    config = timm.data.resolve_model_data_config(vit.backbone)
    normalise = timm.data.create_transform(**config).transforms[-1]
    with torch.inference_mode():
        expected = vit.backbone(normalise(images(vit) / 255))
    torch.testing.assert_close(features(vit), expected, rtol=1e-4, atol=1e-5)
    assert features(vit).dtype == torch.float32
    assert vit.dimension == expected.shape[1]
    assert vit.view.size == config["input_size"][1:]


def test_random_weights_are_the_same_each_time_and_the_generator_is_left_alone(vit) -> None:
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    again = random("test_vit")
    assert torch.equal(torch.rand(1), expected)
    assert torch.equal(features(again), features(vit))
    assert "random" in again.origin


def test_the_model_is_frozen_and_in_evaluation_mode(vit) -> None:
    assert not any(module.training for module in vit.modules())
    assert not any(parameter.requires_grad for parameter in vit.parameters())


@pytest.mark.parametrize("name", ["cait_xxs24_224", "xcit_nano_12_p16_224"])
def test_a_token_that_is_not_counted_is_no_patch(name) -> None:
    """These models put a CLS token in front and say nothing of it."""
    model = random(name, pooling="mean")
    with torch.inference_mode():
        tokens = model.backbone.forward_features(model.normalised(images(model)))
    assert tokens.shape[1] == 14 * 14 + 1
    torch.testing.assert_close(features(model), tokens[:, 1:].mean(1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["pit_ti_224", "pit_ti_distilled_224"])
def test_a_mean_of_no_patches_is_refused(name) -> None:
    with pytest.raises(ConfigError, match="gives no features of patches; write auto"):
        random(name, pooling="mean")


@pytest.mark.parametrize("pooling", ["token", "mean"])
def test_what_is_no_single_map_can_only_be_pooled_by_the_model(pooling) -> None:
    with pytest.raises(ConfigError, match=r"crossvit_tiny_240 .*write auto"):
        random("crossvit_tiny_240", pooling=pooling)


# A transformer with a CLS token, one with a register in its place that norms behind its pooling, a map with channels
# first, and one with channels last.
@pytest.mark.parametrize(
    ("name", "axes"),
    [("test_vit", (1,)), ("test_vit2", (1,)), ("test_resnet", (2, 3)), ("mambaout_femto", (1, 2))],
)
def test_the_mean_is_that_of_patches_alone(name, axes) -> None:
    model = random(name, pooling="mean")
    with torch.inference_mode():
        tokens = model.backbone.forward_features(model.normalised(images(model)))
        patches = tokens[:, getattr(model.backbone, "num_prefix_tokens", 0) :] if axes == (1,) else tokens
        expected = getattr(model.backbone, "fc_norm", torch.nn.Identity())(patches.mean(axes))
    torch.testing.assert_close(features(model), expected, rtol=1e-4, atol=1e-5)
    assert model.dimension == model.backbone.num_features == expected.shape[1]


def test_the_token_is_the_first_and_a_model_without_one_says_so() -> None:
    model = random("test_vit", pooling="token")
    with torch.inference_mode():
        tokens = model.backbone.forward_features(model.normalised(images(model)))
    torch.testing.assert_close(features(model), tokens[:, 0], rtol=1e-4, atol=1e-5)
    with pytest.raises(ConfigError, match="'token': test_resnet has no CLS token; write auto or mean"):
        random("test_resnet", pooling="token")


def test_a_layer_behind_the_pooling_counts_for_the_dimension() -> None:
    name = "mobilenetv3_small_050"
    assert random(name).dimension == 1024
    assert random(name, pooling="mean").dimension == 288


@settings(deadline=None, max_examples=20)
@given(rows=st.integers(1, 5), biased=st.booleans(), normalise=st.booleans())
def test_projection_and_scaling(rows, biased, normalise) -> None:
    backbone = torch.nn.Identity()
    backbone.pretrained_cfg = {"input_size": (3, 8, 8)}
    linear = torch.nn.Linear(6, rows, bias=biased)
    model = FeatureModel(backbone, projection=linear, normalise=normalise)
    pooled = torch.randn(4, 6, generator=torch.Generator().manual_seed(rows))
    with torch.inference_mode():
        expected = pooled @ linear.weight.T + (linear.bias if biased else 0)
        finished = model.finish(pooled)
    if normalise:
        torch.testing.assert_close(finished.norm(dim=1), torch.ones(4))
        expected = expected / expected.norm(dim=1, keepdim=True)
    torch.testing.assert_close(finished, expected)


def test_a_projection_out_of_a_file(vit, tmp_path) -> None:
    path = tmp_path / "projection.safetensors"
    weight, bias = torch.randn(5, vit.dimension), torch.randn(5)
    safetensors.torch.save_file({"weight": weight, "bias": bias}, path)
    model = random("test_vit", projection=str(path))
    assert model.dimension == 5
    torch.testing.assert_close(features(model), features(vit) @ weight.T + bias, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"weight": torch.zeros(5, 7)}, "takes 7 features, test_vit gives 64"),
        ({"weight": torch.zeros(64)}, r"should hold weight \(k, d\) .* but holds weight \(64,\)"),
        ({"matrix": torch.zeros(5, 64)}, r"but holds matrix \(5, 64\)"),
        ({"weight": torch.zeros(5, 64), "bias": torch.zeros(64)}, r"bias has the shape \(64,\), weight has 5 rows"),
        ({"weight": torch.zeros(5, 64), "scale": torch.zeros(5)}, r"but holds .*scale \(5,\)"),
    ],
)
def test_projections_that_do_not_fit(tensors, words, tmp_path) -> None:
    path = tmp_path / "projection.safetensors"
    safetensors.torch.save_file(tensors, path)
    with pytest.raises(ConfigError, match=words):
        random("test_vit", projection=str(path))


# In the last one some modules are one and the same.
@pytest.mark.parametrize("name", ["test_vit", "test_efficientnet", "coat_tiny"])
def test_saved_weights_come_back(name, tmp_path) -> None:
    model = random(name)
    with torch.no_grad():
        for parameter in model.backbone.parameters():
            parameter.mul_(1.25)
    save_weights(model, tmp_path / "encoder.safetensors")
    again = build(TimmOptions(model=name, weights=str(tmp_path / "encoder.safetensors")))
    assert torch.equal(features(again), features(model))
    assert not torch.equal(features(again), features(random(name)))
    assert again.origin.endswith("encoder.safetensors")


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("vit_tiny_patch16_244", "vit_tiny_patch16_224"),
        ("vit_base_patch16_224.dinno", "vit_base_patch16_224.dino"),
        ("~~~~", "timm.list_models"),
    ],
)
def test_unknown_names_and_the_nearest_known_ones(name, near) -> None:
    with pytest.raises(ConfigError, match="is unknown to timm") as caught:
        random(name)
    assert near in str(caught.value)


def test_devices_that_are_not_there() -> None:
    assert find_device("cpu") == torch.device("cpu")
    for name in ("gpu", "meta", "xla"):
        with pytest.raises(ConfigError, match=rf"device = '{name}' cannot be used here .* write auto or cpu"):
            find_device(name)
    if torch.cuda.is_available():
        assert find_device("auto").type == "cuda"
    else:
        assert find_device("auto").type == "cpu"
        with pytest.raises(ConfigError, match="device = 'cuda' cannot be used here"):
            find_device("cuda")


def test_precisions() -> None:
    cpu = torch.device("cpu")
    assert find_precision("auto", cpu) is torch.float32
    assert find_precision("bfloat16", cpu) is torch.bfloat16
    exact, coarse = features(random("test_vit")), features(random("test_vit", precision="bfloat16"))
    assert coarse.dtype == torch.float32
    assert not torch.equal(coarse, exact)
    assert torch.nn.functional.cosine_similarity(coarse, exact).min() > 0.99
