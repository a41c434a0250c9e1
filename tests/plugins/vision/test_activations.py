"""Activations that are kept in a file."""

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from speciate_plugins.vision.activations import Activations  # noqa: E402 - after the check


def test_what_is_appended_comes_back(tmp_path) -> None:
    kept = Activations(tmp_path, "some")
    first, second = torch.randn(3, 2, 4), torch.randn(2, 2, 4)
    kept.append(first, 1.0)
    kept.append(second, 0.5)
    for one in (kept, Activations(tmp_path, "some")):
        assert (one.images, one.seconds) == (5, 1.5)
        assert torch.equal(one.tensor(), torch.cat([first, second]))
    assert Activations(tmp_path, "other").images == 0


def test_half_a_precision_is_kept_as_it_is(tmp_path) -> None:
    kept = Activations(tmp_path, "some")
    coarse = torch.randn(3, 4).to(torch.bfloat16)
    kept.append(coarse, 0.0)
    assert torch.equal(kept.tensor(), coarse.float())


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_they_need_not_fit_into_memory(tmp_path) -> None:
    """A private mapping counts as memory that may be needed, and is refused where there is not so much."""
    kept = Activations(tmp_path, "some")
    kept.append(torch.randn(64, 1024), 0.0)
    tensor = kept.tensor()
    (mapping,) = [line for line in Path("/proc/self/maps").read_text().splitlines() if "activations.f32" in line]
    assert mapping.split()[1] == "rw-s"
    assert tensor.shape == (64, 1024)


def test_they_are_counted_only_when_whole(tmp_path) -> None:
    rows = torch.arange(24, dtype=torch.float32).reshape(4, 2, 3)
    Activations(tmp_path, "a").append(rows[:1], 1.5)
    Activations(tmp_path, "a").append(rows[1:3], 2.0)
    with (tmp_path / "activations.f32").open("ab") as file:
        file.write(b"\x01" * 30)  # written, never counted
    kept = Activations(tmp_path, "a")
    assert (kept.images, kept.seconds) == (3, 3.5)
    assert torch.equal(kept.tensor(), rows[:3])
    kept.append(rows[3:], 0.5)
    assert torch.equal(Activations(tmp_path, "a").tensor(), rows)


def test_those_of_something_else_or_too_few_are_forgotten(tmp_path) -> None:
    Activations(tmp_path, "a").append(torch.ones(2, 1, 3), 1.0)
    assert Activations(tmp_path, "b").images == 0
    (tmp_path / "activations.f32").write_bytes(b"1234")
    kept = Activations(tmp_path, "a")
    assert kept.images == 0
    kept.append(torch.zeros(1, 1, 2), 1.0)
    assert torch.equal(Activations(tmp_path, "a").tensor(), torch.zeros(1, 1, 2))
