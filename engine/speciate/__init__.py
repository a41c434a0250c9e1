"""Speciate: for every event of a stream, live, a known category or the birth of a new one.

The public names are those in `__all__`; they are imported when first used, so that `import speciate` is instant.
Plugin authors find the hooks in `speciate.hooks`, the stages in `speciate.stages`, bases for stages that block on
files in `speciate.blocking`, and the laws their plugins must keep in `speciate.conformance`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from speciate.errors import SpeciateError
    from speciate.head import Category, Decision, Head
    from speciate.hooks import Provider, hookimpl
    from speciate.model import Model
    from speciate.pipeline import Pipeline, run
    from speciate.report import Report, Status

__all__ = [
    "Category",
    "Decision",
    "Head",
    "Model",
    "Pipeline",
    "Provider",
    "Report",
    "SpeciateError",
    "Status",
    "hookimpl",
    "run",
]

_HOMES = {
    "Category": "head",
    "Decision": "head",
    "Head": "head",
    "Model": "model",
    "Pipeline": "pipeline",
    "Provider": "hooks",
    "Report": "report",
    "SpeciateError": "errors",
    "Status": "report",
    "hookimpl": "hooks",
    "run": "pipeline",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"speciate.{_HOMES[name]}"), name)
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415  # reads the disk; few ask

        return version("speciate")
    raise AttributeError(f"module 'speciate' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
