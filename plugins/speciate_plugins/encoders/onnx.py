"""Encoder `onnx`: the features of a file that `speciate export` wrote, by onnxruntime; torch is not needed."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from speciate.errors import ConfigError, PluginError, first_line
from speciate.hooks import Provider, hookimpl
from speciate.logs import get_logger
from speciate.stages import Encoder
from speciate_plugins.vision.decoding import import_decoders
from speciate_plugins.vision.options import MaxPixels
from speciate_plugins.vision.picturing import picture
from speciate_plugins.vision.viewing import View
from speciate_schemas import ImageEvent, Strict

FORMAT = "encoder.v1"
INPUT, OUTPUT = "images", "features"
"""What the graph takes, uint8 (B, 3, H, W), and what it gives, float32 (B, d)."""

CUDA, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"
ERRORS_ONLY = 3
"""How much onnxruntime says on standard error: errors, not the warnings about its own optimisations."""

log = get_logger(__name__)


class OnnxOptions(Strict, frozen=True):
    """Options of the encoder `onnx`."""

    path: Annotated[str, msgspec.Meta(min_length=1, description="A file that `speciate export` wrote.")]
    device: Annotated[
        Literal["auto", "cpu", "cuda"],
        msgspec.Meta(description="auto: cuda if the installed onnxruntime has it, otherwise cpu."),
    ] = "auto"
    threads: Annotated[
        Annotated[int, msgspec.Meta(ge=1)] | None,
        msgspec.Meta(description="Threads that share a batch on a CPU; left out: one for each core."),
    ] = None
    max_pixels: MaxPixels = 50_000_000


class Described(NamedTuple):
    """What a file says of itself: everything that is not in the graph."""

    view: View
    dimension: int

    def properties(self) -> dict[str, str]:
        """As the file keeps it, in its metadata."""
        return {
            "speciate.format": FORMAT,
            "speciate.view": msgspec.json.encode(self.view).decode(),
            "speciate.dimension": str(self.dimension),
        }


class OnnxEncoder:
    """Decodes and cuts as the file says, and runs its graph on batches; all else is inside the graph."""

    def __init__(self, options: OnnxOptions) -> None:
        self._options = options
        self._session: Any = None
        self._described: Described | None = None

    @property
    def dimension(self) -> int:
        """See `Encoder`."""
        return self._loaded().dimension

    def load(self) -> None:
        """See `Encoder`."""
        if self._described is not None:
            return
        import_decoders()
        started = time.monotonic()
        self._session = _opened(self._options)
        self._described = _described(self._session, self._options.path)
        log.info(
            "model loaded",
            model=self._options.path,
            device="cuda" if CUDA in self._session.get_providers() else "cpu",
            dimension=self._described.dimension,
            seconds=round(time.monotonic() - started, 2),
        )

    def prepare(self, image: ImageEvent) -> npt.NDArray[np.uint8]:
        """See `Encoder`."""
        return self._loaded().view.prepare(image.image, self._options.max_pixels)

    def encode(self, prepared: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.float32]:
        """See `Encoder`."""
        dimension = self._loaded().dimension
        if not prepared:
            return np.empty((0, dimension), dtype=np.float32)
        features: npt.NDArray[np.float32] = self._session.run([OUTPUT], {INPUT: np.stack(prepared)})[0]
        return features

    def picture(self, image: ImageEvent, pixels: int) -> bytes:
        """See `Picturing`."""
        return picture(image.image, pixels, max_pixels=self._options.max_pixels)

    def _loaded(self) -> Described:
        if self._described is None:
            raise PluginError("the encoder onnx is used before it is loaded: call load() first")
        return self._described


def _opened(options: OnnxOptions) -> Any:
    """The session of a file. No library of foreign operators is ever registered: a graph is data."""
    import onnxruntime  # noqa: PLC0415 - heavy, and an extra

    if not Path(options.path).is_file():
        raise ConfigError(f"path = {options.path!r}: there is no such file; `speciate export` writes one")
    wanted = _providers(options.device, onnxruntime.get_available_providers())
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = ERRORS_ONLY
    settings.intra_op_num_threads = options.threads or 0
    # Its threads would go on turning in circles between batches, on the cores that decode the next images.
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        # Its bytes, not its path: a graph must not find weights in files beside it, which nobody has verified.
        settings.add_session_config_entry("session.model_external_initializers_file_folder_path", os.devnull)
        session = onnxruntime.InferenceSession(Path(options.path).read_bytes(), settings, providers=wanted)
    except Exception as error:
        raise ConfigError(
            f"path = {options.path!r} cannot be used by onnxruntime {onnxruntime.__version__} ({first_line(error)}): "
            "export the model again"
        ) from error
    if options.device == "cuda" and CUDA not in session.get_providers():
        raise ConfigError(
            "device = 'cuda': onnxruntime cannot use the device, see what it said above: mend that, or write cpu"
        )
    return session


def _providers(device: str, available: Sequence[str]) -> list[str]:
    """What the graph may run on, the best first."""
    if device == "cuda" and CUDA not in available:
        raise ConfigError(
            "device = 'cuda': the installed onnxruntime has no CUDA; install onnxruntime-gpu in its place, or write cpu"
        )
    return [CUDA, CPU] if device != "cpu" and CUDA in available else [CPU]


def _described(session: Any, path: str) -> Described:
    """What the file says of itself, and whether its graph is like that."""
    properties = session.get_modelmeta().custom_metadata_map
    found = properties.get("speciate.format")
    if found != FORMAT:
        has = "no speciate.format" if found is None else f"speciate.format = {found!r}"
        raise ConfigError(
            f"path = {path!r} is an ONNX file with {has} in its metadata, {FORMAT!r} is expected: "
            "a model is made usable here by `speciate export`"
        )
    try:
        view = msgspec.json.decode(properties["speciate.view"], type=View)
        described = Described(view, int(properties["speciate.dimension"]))
    except (KeyError, ValueError) as error:  # a DecodeError of msgspec's is a ValueError
        raise ConfigError(f"path = {path!r}: its metadata is damaged ({error}): export the model again") from error
    ports = [(port.name, port.type, port.shape[1:]) for port in (*session.get_inputs(), *session.get_outputs())]
    expected = [(INPUT, "tensor(uint8)", [3, *view.size]), (OUTPUT, "tensor(float)", [described.dimension])]
    if ports != expected:
        raise ConfigError(
            f"path = {path!r}: its graph has {ports}, its metadata says {expected}: export the model again"
        )
    return described


@hookimpl
def speciate_encoder() -> Provider[Encoder]:
    """Provide the encoder."""
    return Provider(
        options=OnnxOptions,
        create=OnnxEncoder,
        files=("path",),
        requires=("onnxruntime", "PIL", "simplejpeg"),
        install="speciate[onnx]",
    )
