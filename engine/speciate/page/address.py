"""Where the page is: an address to listen at, and the names by which it may be called."""

import ipaddress
import socket
from dataclasses import dataclass

from speciate.errors import ConfigError

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
BACKLOG = 64
TOKEN_CHARACTERS = 16
"""A token has at least so many where others can guess at it."""


@dataclass(frozen=True)
class Place:
    """A socket that listens, and whom it answers."""

    listening: socket.socket
    host: str

    @property
    def url(self) -> str:
        """For people."""
        host, port = self.listening.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self.listening.getsockname()[1]
        return port

    @property
    def _bound(self) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
        return ipaddress.ip_address(self.listening.getsockname()[0])

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self._bound.is_loopback

    def is_called(self, name: str) -> bool:
        """Whether a request for this host, without its port, may be meant for us.

        A page in a browser whose owner lets a name of his point here sends that name. An address cannot be made to
        point elsewhere, so one that listens on all addresses takes any of them.
        """
        if name.lower() in LOOPBACK_NAMES or name.lower() == self.host.lower():
            return True
        return self._bound.is_unspecified and _is_address(name)


def listen(address: str, token: str | None) -> Place:
    """Listen at `HOST:PORT`; raises `ConfigError` if that cannot be, or must not be without a token."""
    host, port = _parsed(address)
    if token is not None and (not token.isascii() or not token.isprintable() or " " in token or not token):
        raise ConfigError(
            "SPECIATE_PAGE_TOKEN is empty, or has characters that no header can carry: use letters and digits"
        )
    try:
        family, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        place = Place(socket.create_server(where[:2], family=family, backlog=BACKLOG), host)
    except (OSError, UnicodeError) as error:
        # A name that cannot be written as one of the DNS, such as one with an empty part, is a UnicodeError.
        reason = error.strerror or str(error) if isinstance(error, OSError) else f"{host!r} is no name of a host"
        raise ConfigError(
            f"--page-address {address}: {reason}; choose another, or port 0 for any that is free"
        ) from error
    if token is None and not place.is_loopback:
        place.listening.close()
        raise ConfigError(
            f"--page-address {address} can be reached from other machines: set SPECIATE_PAGE_TOKEN to a secret that "
            "every request must bring along, or use 127.0.0.1"
        )
    if token is not None and len(token) < TOKEN_CHARACTERS and not place.is_loopback:
        place.listening.close()
        raise ConfigError(
            f"--page-address {address} can be reached from other machines: SPECIATE_PAGE_TOKEN has {len(token)} "
            f"characters and needs {TOKEN_CHARACTERS} or more, drawn at random, or use 127.0.0.1"
        )
    return place


def host_of(header: str) -> str:
    """The host of a `Host` header, without its port and without an address's brackets."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


def _parsed(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:  # noqa: PLR2004  # a port
        raise ConfigError(f"--page-address {address}: must be HOST:PORT, such as 127.0.0.1:8600")
    return host, int(port)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
