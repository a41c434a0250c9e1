"""Packages made up for a test: real metadata and modules in a folder, found the way installed ones are."""

from collections.abc import Mapping
from pathlib import Path

PROVIDER = """
from typing import Annotated
import msgspec
from speciate.hooks import Provider, hookimpl
from speciate_schemas import Strict

class Options(Strict, frozen=True):
    path: Annotated[str, msgspec.Meta(description="A path.")] = "here"
    scale: Annotated[float, msgspec.Meta(gt=0, description="A scale.")] = 2.5
    sizes: Annotated[tuple[int, ...], msgspec.Meta(description="Sizes.")] = (3, 4)

@hookimpl
def speciate_{stage}():
    return Provider(options=Options, create=lambda options: options{more})
"""


def working(stage: str, more: str = "") -> str:
    """The source of a plugin module that works; `more` is added to the arguments of its provider."""
    return PROVIDER.format(stage=stage, more=more)


def distribution(
    folder: Path, package: str, plugins: Mapping[str, tuple[str, str | None]], version: str = "1.0"
) -> None:
    """Write a distribution: entry points as `name: (module, the module's source or None for no module)`."""
    metadata = folder / f"{package.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    lines = [f"{name} = {module}" for name, (module, _) in plugins.items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[speciate]", *lines, ""]))
    for module, source in plugins.values():
        if source is not None:
            (folder / f"{module}.py").write_text(source)
