"""`speciate export`: an encoder of images as an ONNX file, which needs no torch to be used."""

import contextlib
import importlib.util
import json
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from speciate.cli.options import json_option
from speciate.cli.output import print_json

if TYPE_CHECKING:
    from speciate.bundle import Bundle
    from speciate.stages import Watch
    from speciate_plugins.vision.exporting import Images
    from speciate_plugins.vision.options import TimmOptions
    from speciate_plugins.vision.viewing import View

Found = dict[str, Any]
"""What a command tells of what it has done."""

NEEDED = ("torch", "timm", "safetensors", "onnx", "onnxscript", "onnxruntime", "PIL", "simplejpeg")
MOST_IMAGES = 64
ENCODER_FILE = "encoder.onnx"


@click.command(name="export")
@click.argument("model", metavar="MODEL", type=click.Path(path_type=Path))
@click.option(
    "--out",
    metavar="PATH",
    required=True,
    type=click.Path(path_type=Path),
    help="What to write: a bundle if MODEL is one, otherwise a single file. It must not exist.",
)
@click.option(
    "--images",
    metavar="FOLDER",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help=f"Compare features of {MOST_IMAGES} images below this folder and behind links; without it, of made-up ones.",
)
@json_option
def command(*, model: Path, out: Path, images: Path | None, as_json: bool) -> None:
    """Write an encoder of images as ONNX, to use without torch.

    MODEL is a bundle of `speciate fit`, and another bundle is written, the same but for its encoder, which is now
    `onnx`; or it is a TOML file with a section [encoder] of plugin `timm`, and a single file is written for the
    encoder `onnx`. Nothing is written unless both give the same features, within a small tolerance.
    """
    from speciate.bundle import check_free
    from speciate.cli.bars import counting

    began = time.monotonic()
    _check_installed()
    check_free(out)
    bundle = _bundle(model)
    options = _timm_options(model, bundle)
    with counting("export") as show:
        if bundle is None:
            found = _write_file(options, out, images, show)
        else:
            found = _write_bundle(bundle, options, out, images, show)
    found["seconds"] = round(time.monotonic() - began, 1)
    if as_json:
        print_json(found)
    else:
        _tell(found)


def _check_installed() -> None:
    from speciate.errors import PluginError

    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise PluginError(f"speciate export needs {', '.join(missing)}: pip install 'speciate[export]'")


def _bundle(path: Path) -> "Bundle | None":
    from speciate.bundle import Bundle

    return Bundle.load(path) if path.is_dir() else None


def _timm_options(path: Path, bundle: "Bundle | None") -> "TimmOptions":
    """The options of the encoder to export."""
    from speciate.config import choose
    from speciate.errors import ConfigError
    from speciate.plugins import installed
    from speciate.trees import read_toml
    from speciate_plugins.vision.options import TimmOptions

    tree = read_toml(path, f"MODEL {path}", str(path)) if bundle is None else {"encoder": bundle.encoder_section()}
    section = tree.get("encoder")
    if not isinstance(section, dict):
        raise ConfigError(f"{path} has no encoder: there is nothing to export")
    options = choose(installed(), "encoder", section, "encoder").options
    if not isinstance(options, TimmOptions):
        raise ConfigError(f"{path} has the encoder {section['plugin']!r}: only those of plugin 'timm' can be exported")
    return options


def _write_file(options: "TimmOptions", out: Path, images: Path | None, show: "Watch") -> Found:
    """Write the encoder as a single file, and give what there is to tell."""
    import msgspec

    from speciate.encoding import importing
    from speciate.files import make_directory, writing

    with writing(out):
        make_directory(out.absolute().parent)
    show(0, 2, "loading the model")
    with importing():
        from speciate_plugins.vision.exporting import OPSET, export
        from speciate_plugins.vision.models import build

        # On any machine the same file: it is the serving machine's options that say what it runs on.
        model = build(msgspec.structs.replace(options, device="cpu", compile=False))
    agreed = export(model, out, [] if images is None else _prepared(model.view, images, options.max_pixels), show)
    return {
        "path": str(out),
        "bytes": out.stat().st_size,
        "opset": OPSET,
        "dimension": model.dimension,
        "compared": "made-up images" if images is None else str(images),
        "agreement": agreed._asdict(),
        "section": {"encoder": {**_onnx_section(options), "path": str(out)}},
    }


def _write_bundle(bundle: "Bundle", options: "TimmOptions", out: Path, images: Path | None, show: "Watch") -> Found:
    """Write the bundle once more with an encoder that needs no torch, and give what there is to tell."""
    from tempfile import TemporaryDirectory

    from speciate.bundle import write_bundle
    from speciate.plugins import installed

    manifest = bundle.manifest
    versions = {name: version for name, version in manifest.plugins.items() if not name.startswith("encoder.")}
    with TemporaryDirectory(prefix="speciate-export-") as folder:
        file = Path(folder, ENCODER_FILE)
        found = _write_file(options, file, images, show)
        write_bundle(
            out,
            encoder=_onnx_section(options),
            files={"path": file},
            head=bundle.head_state(),
            card=manifest.card,
            plugins={**versions, "encoder.onnx": installed().info("encoder", "onnx").version},
        )
    return {**found, "path": str(out), "section": {"model": {"path": str(out)}}}


def _onnx_section(options: "TimmOptions") -> dict[str, Any]:
    """The new encoder's options that name no file."""
    return {"plugin": "onnx", "max_pixels": options.max_pixels}


def _prepared(view: "View", folder: Path, max_pixels: int) -> "Images":
    """Images from all over a folder, as the model sees them; those that cannot be decoded do not count."""
    from speciate.errors import ConfigError, EventError, SourceError
    from speciate_plugins.sources.images import MEDIA_TYPES, find_images, read_image

    try:
        files = find_images(str(folder), MEDIA_TYPES)
    except SourceError as error:
        raise ConfigError(f"--images {folder}: {error}, or name another folder") from error
    prepared = []
    for file in files[:: math.ceil(len(files) / MOST_IMAGES) or 1]:
        with contextlib.suppress(EventError):
            prepared.append(view.prepare(read_image(file.path), max_pixels))
    if not prepared:
        raise ConfigError(
            f"--images {folder}: none of its {len(files)} image files can be decoded; name another folder"
        )
    return prepared


def _tell(found: Found) -> None:
    agreed = found["agreement"]
    click.echo(
        f"{found['path']}: {found['dimension']} features, {found['bytes'] / 1e6:.1f} MB of ONNX, "
        f"opset {found['opset']}, in {found['seconds']} s"
    )
    click.echo(
        f"compared with torch on {agreed['images']} images ({found['compared']}): a feature differs by at most "
        f"{agreed['difference']:.1e} of the vector's length, cosine at least 1 - {1 - agreed['cosine']:.1e}"
    )
    for name, section in found["section"].items():
        click.echo(f"\n[{name}]")
        for key, value in section.items():
            click.echo(f"{key} = {json.dumps(value, ensure_ascii=False)}")  # JSON's escapes are TOML's
