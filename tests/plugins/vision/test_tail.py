"""Trunk and tail together are the model, whatever its family, and only the tail trains."""

import pytest

from speciate.errors import ConfigError

torch = pytest.importorskip("torch")
timm = pytest.importorskip("timm")

from speciate_plugins.vision import models  # noqa: E402 - after the check for torch
from speciate_plugins.vision.options import TimmOptions  # noqa: E402
from speciate_plugins.vision.tail import SplitModel  # noqa: E402

FAMILIES = {
    "tf_efficientnet_lite0": "blocks.6.0.",
    "vit_tiny_patch16_224": "blocks.11.",
    "resnet18": "layer4.1.",
    "convnext_atto": "stages.3.blocks.1.",
    "swin_tiny_patch4_window7_224": "layers.3.blocks.1.",
    "mobilenetv3_small_050": "blocks.5.0.",
    "test_vit": "blocks.5.",
}
"""Models, and how the names of their last block's parameters begin."""


def build(model, **options):
    return models.build(TimmOptions(model=model, pretrained=False, device="cpu", **options))


def some_images(model, count=2):
    random = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (count, 3, *model.view.size), dtype=torch.uint8, generator=random)


def close(one, other):
    return torch.allclose(one, other, rtol=0, atol=1e-5 * float(other.abs().max()))


@pytest.mark.parametrize("name", FAMILIES)
def test_trunk_and_tail_are_the_model_and_only_the_tail_trains(name):
    model = build(name)
    images = some_images(model)
    split = SplitModel(model, 1)
    with torch.inference_mode():
        assert close(split.tail(split.trunk(images)), model(images))
        # An image alone, too, and another after the first.
        assert close(split.tail(split.trunk(images[1:])), model(images[1:]))

    before = {key: tensor.clone() for key, tensor in model.backbone.state_dict().items()}
    optimizer = torch.optim.SGD(model.backbone.parameters(), lr=0.1)
    split.tail(split.trunk(images).clone()).square().mean().backward()
    assert all(parameter.grad is None for parameter in frozen(model, split))
    optimizer.step()
    changed = {key for key, tensor in model.backbone.state_dict().items() if not torch.equal(tensor, before[key])}
    last = {key for key, _ in model.backbone.named_parameters() if key.startswith(FAMILIES[name])}
    assert changed & last
    assert changed | last <= set(split.parameters)


def frozen(model, split):
    named = model.backbone.named_parameters()
    return [parameter for name, parameter in named if name not in split.parameters]


def test_what_follows_the_last_block_trains_too():
    assert {"conv_head.weight", "bn2.weight"} <= set(SplitModel(build("test_efficientnet"), 1).parameters)
    assert {"norm.weight"} <= set(SplitModel(build("test_vit"), 1).parameters)
    assert not {"pos_embed", "cls_token"} & set(SplitModel(build("test_vit"), 6).parameters)


@pytest.mark.parametrize("blocks", [2, 6])
def test_more_blocks_are_more_to_train(blocks):
    model = build("test_vit", pooling="mean", normalise=True)
    images = some_images(model)
    split = SplitModel(model, blocks)
    heads = {name.partition(".norm1")[0] for name in split.parameters if ".norm1." in name}
    assert heads == {f"blocks.{place}" for place in range(6 - blocks, 6)}
    with torch.inference_mode():
        assert close(split.tail(split.trunk(images)), model(images))


def test_the_model_can_still_be_used_as_a_whole():
    model = build("test_resnet")
    images = some_images(model)
    with torch.inference_mode():
        before = model(images)
        split = SplitModel(model, 1)
        split.tail(split.trunk(images))
        assert torch.equal(model(images), before)


def test_statistics_of_norms_stay_as_they_are():
    model = build("test_resnet")
    split = SplitModel(model, 1)
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    split.tail(split.trunk(some_images(model)).clone()).sum().backward()
    assert before
    assert all(torch.equal(buffer, before[name]) for name, buffer in model.named_buffers())


def test_weights_can_be_put_back():
    model = build("test_resnet")
    split = SplitModel(model, 1)
    activations = split.trunk(some_images(model))
    with torch.inference_mode():
        before = split.tail(activations)
        kept = split.weights()
        split.load({name: tensor + 1 for name, tensor in kept.items()})
        assert not close(split.tail(activations), before)
        split.load(kept)
        assert torch.equal(split.tail(activations), before)


def test_more_blocks_than_there_are_is_an_error_that_tells_how_many():
    with pytest.raises(ConfigError, match=r"blocks = 7, but VisionTransformer has 6 blocks"):
        SplitModel(build("test_vit"), 7)


def test_a_model_without_known_blocks_is_an_error_that_names_it():
    with pytest.raises(ConfigError, match=r"RegNet cannot be trained in part: it has no list of blocks"):
        SplitModel(build("regnetx_002"), 1)


def test_a_model_whose_last_block_looks_further_back_is_an_error_that_names_it():
    """This one takes the number of images from what comes before its last stage."""
    with pytest.raises(ConfigError, match=r"PyramidVisionTransformerV2 cannot be trained in part"):
        SplitModel(build("pvt_v2_b0"), 1)
