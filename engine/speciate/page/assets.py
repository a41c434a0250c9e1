"""The files of the page, read once: what is not among them does not exist."""

import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
INDEX = "index.html"


class Asset(NamedTuple):
    """One file."""

    content: bytes
    media_type: str
    tag: str

    def answer(self, request: Request) -> Response:
        """The file, unless the browser has it."""
        headers = {"ETag": self.tag, "Cache-Control": "no-cache"}
        if self.tag in [one.strip() for one in request.headers.get("if-none-match", "").split(",")]:
            return Response(status_code=304, headers=headers)
        # The type as it is: Starlette would add a character set of its own.
        return Response(self.content, headers={**headers, "Content-Type": self.media_type})


def load_assets() -> dict[str, Asset]:
    """Every file of a known type, by its path below the folder."""
    return dict(_load(files("speciate.page") / "static", ""))


def _load(folder: Traversable, prefix: str) -> list[tuple[str, Asset]]:
    found = []
    for one in folder.iterdir() if folder.is_dir() else ():
        suffix = one.name.rpartition(".")[2]
        if one.is_dir():
            found += _load(one, f"{prefix}{one.name}/")
        elif suffix in MEDIA_TYPES:
            content = one.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            found.append((prefix + one.name, Asset(content, MEDIA_TYPES[suffix], tag)))
    return found
