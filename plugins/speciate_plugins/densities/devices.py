"""Where arrays live: the namespace of a device, imported only when it is asked for."""

from importlib import import_module
from typing import Any

from speciate.errors import PluginError

NAMESPACES = {"cpu": "numpy", "cuda": "cupy"}


def namespace(device: str) -> Any:
    """The array namespace of a device."""
    try:
        return import_module(NAMESPACES[device])
    except ImportError as error:
        raise PluginError(
            f"device = {device!r} needs CuPy: pip install 'speciate[cuda12]' or 'speciate[cuda13]'"
        ) from error
