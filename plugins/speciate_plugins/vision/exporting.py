"""A feature model as one ONNX file that needs no torch to be used, compared with the model before it gets its name."""

import contextlib
import logging
import warnings
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.onnx

from speciate.errors import ConfigError, OutputError, first_line
from speciate.files import TEMPORARY, fsync_directory, sync_file, writing
from speciate.stages import Watch
from speciate_plugins.encoders.onnx import INPUT, OUTPUT, Described, OnnxEncoder, OnnxOptions
from speciate_plugins.vision.models import FeatureModel, in_float32, precision_name
from speciate_plugins.vision.viewing import View

Images = Sequence[npt.NDArray[np.uint8]]
Matrix = npt.NDArray[np.float32]

OPSET = 20
"""Version of ONNX's operators: the one that torch writes without converting; onnxruntime knows it since 1.17."""

LARGEST = 2_000_000_000
"""Bytes of weights; an ONNX file is one message of Protocol Buffers, and those end at 2 GiB."""

DIFFERENCE = 1e-4
COSINE = 0.99999
"""What is still agreement; float32 summed in another order stays a hundred times below."""

BATCHES = (1, 5)
"""Sizes of the batches compared, by turns: a graph that is right for one size only is found out."""

NOISY = ("torch.onnx", "torch.export", "onnxscript", "onnx_ir")


class Agreement(NamedTuple):
    """How near the features of two encoders are to each other."""

    images: int
    difference: float
    """The largest of a number of a vector, relative to the vector's length."""
    cosine: float
    """The smallest of two vectors of the same image."""

    @property
    def good(self) -> bool:
        """Whether a head cannot tell them apart. What is not finite never agrees."""
        return self.difference <= DIFFERENCE and self.cosine >= COSINE


def export(model: FeatureModel, path: Path, images: Images = (), watch: Watch = lambda *_: None) -> Agreement:
    """Write a model as a file for the encoder `onnx`, if it gives the same features for these or for made-up images.

    The file computes in float32, and is compared with the model as it is: a head that was fitted to coarser features
    would meet others.

    Raises:
        ConfigError: if the model is too large.
        OutputError: if it cannot be exported, is another one afterwards, or cannot be written; no file is left.
    """
    images = images or made_up(model.view)
    # The first step, loading the model, has been done; comparing takes one for each image.
    watch(1, 2 + len(images), "exporting the model")
    data = _serialised(in_float32(model))
    unchecked = path.with_name(path.name + TEMPORARY)
    with writing(path), _removed(unchecked):
        with unchecked.open("wb") as file:
            file.write(data)
            sync_file(file)
        found = _compared(model, unchecked, images, watch)
        if not found.good:
            raise OutputError(
                f"the exported model gives other features: they differ by up to {found.difference:.1e} of their length "
                f"({DIFFERENCE:.0e} allowed), with a cosine down to {found.cosine:.6f} ({COSINE} allowed); "
                f"nothing was written: {_remedy(model)}"
            )
        unchecked.replace(path)
        fsync_directory(path.absolute().parent)
    return found


def agreement(expected: Matrix, found: Matrix) -> Agreement:
    """Compare the features of the same images, a row an image, by two encoders."""
    one, other = expected.astype(np.float64), found.astype(np.float64)
    lengths, others = np.linalg.norm(one, axis=1), np.linalg.norm(other, axis=1)
    same = (one == other).all(axis=1) & np.isfinite(lengths)  # zeros are like zeros, though they have no direction
    with np.errstate(invalid="ignore", divide="ignore"):
        differences = np.where(same, 0.0, np.abs(one - other).max(axis=1) / lengths)
        cosines = np.where(same, 1.0, (one * other).sum(axis=1) / (lengths * others))
    return Agreement(len(one), float(differences.max()), float(cosines.min()))


def made_up(view: View) -> list[npt.NDArray[np.uint8]]:
    """Images that no two places of are alike: noise, and gradients in all directions. The same each time."""
    rng = np.random.default_rng(0)
    height, width = view.size
    down, across = np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j]
    noise = [rng.integers(0, 256, (3, height, width), dtype=np.uint8) for _ in range(sum(BATCHES))]
    slopes = rng.uniform(-1, 1, (sum(BATCHES), 2, 3, 1, 1))
    gradients = [(127.5 + 63 * (slope * down + along * across)).astype(np.uint8) for slope, along in slopes]
    return [*noise, *gradients]


@contextlib.contextmanager
def _removed(path: Path) -> Iterator[None]:
    """Leave no such file behind."""
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()


def _remedy(model: FeatureModel) -> str:
    if model.precision is torch.float32:
        return "use the encoder timm, or another version of torch"
    computes = precision_name(model.precision)
    return f"the model computes in {computes}, an exported one in float32: fit it with precision = 'float32'"


def _serialised(model: FeatureModel) -> bytes:
    nbytes = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
    if nbytes > LARGEST:
        raise ConfigError(
            f"the model has {nbytes / 1e9:.1f} GB of weights, an ONNX file holds no more than 2: export a smaller one"
        )
    try:
        with _quiet():
            program = _exported(model)
    except Exception as error:
        raise OutputError(
            f"torch {torch.__version__} cannot export the model: {_reason(error)}; use the encoder timm, or another "
            "model"
        ) from error
    program.model.metadata_props.update(Described(model.view, model.dimension).properties())
    data: bytes = program.model_proto.SerializeToString(deterministic=True)
    return data


def _exported(model: FeatureModel) -> Any:
    """The graph, without the traces of the source files it was made from: they name folders of this machine."""
    from onnx_ir.passes.common import ClearMetadataAndDocStringPass  # noqa: PLC0415 - its absence is told by the caller

    images = torch.zeros((2, 3, *model.view.size), dtype=torch.uint8, device=model.device)
    program: Any = torch.onnx.export(
        model,
        (images,),
        dynamo=True,
        verbose=False,
        opset_version=OPSET,
        input_names=[INPUT],
        output_names=[OUTPUT],
        dynamic_shapes=({0: torch.export.Dim("batch")},),
    )
    ClearMetadataAndDocStringPass()(program.model)
    return program


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what the exporter has to say about its own work. What goes wrong is raised all the same."""
    loggers = [logging.getLogger(name) for name in NOISY]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _reason(error: BaseException) -> str:
    """The first line of what lies beneath: the exporter wraps it in advice on reporting it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {first_line(error)}"


def _compared(model: FeatureModel, path: Path, images: Images, watch: Watch) -> Agreement:
    encoder = OnnxEncoder(OnnxOptions(path=str(path), device="cpu"))
    encoder.load()
    expected, found = [], []
    done = 0
    for batch in _batches(images):
        watch(2 + done, 2 + len(images), "comparing the features")
        with torch.inference_mode():
            expected.append(model(torch.from_numpy(np.stack(batch)).to(model.device)).cpu().numpy())
        found.append(_encoded(encoder, batch))
        done += len(batch)
    watch(2 + done, 2 + len(images), "compared the features")
    return agreement(np.concatenate(expected), np.concatenate(found))


def _encoded(encoder: OnnxEncoder, batch: Images) -> Matrix:
    try:
        return encoder.encode(batch)
    except Exception as error:
        raise OutputError(
            f"the exported model fails on a batch of {len(batch)}: {_reason(error)}; it was not written: use the "
            "encoder timm, or another version of torch"
        ) from error


def _batches(images: Images) -> Iterator[Images]:
    start = 0
    for size in cycle(BATCHES):
        if start >= len(images):
            return
        yield images[start : start + size]
        start += size
