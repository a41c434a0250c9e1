"""Sessions: whoever has shown the token once is known by a cookie."""

import hmac
import secrets
from collections import deque

from starlette.requests import cookie_parser

MOST_SESSIONS = 256
"""One more costs the oldest its place."""
_ID_BYTES = 32


class Sessions:
    """Knows who has shown the token."""

    def __init__(self, token: str | None, port: int) -> None:
        self._token = None if token is None else token.encode()
        # Cookies do not know ports: two pages of one machine must not take each other's.
        self._name = f"speciate_session_{port}"
        self._ids: deque[bytes] = deque(maxlen=MOST_SESSIONS)

    def open(self, token: str) -> str | None:
        """A cookie for whoever has the token, as a header has it; None for anybody else, or if none is needed."""
        if self._token is None or not hmac.compare_digest(token.encode(), self._token):
            return None
        new = secrets.token_urlsafe(_ID_BYTES)
        self._ids.append(new.encode())
        return f"{self._name}={new}; HttpOnly; SameSite=Strict; Path=/"

    def admits(self, authorization: str, cookies: str) -> bool:
        """Whether a request with these two headers is from somebody who has the token."""
        if self._token is None:
            return True
        scheme, _, shown = authorization.partition(" ")
        bearer = hmac.compare_digest(shown.encode("latin-1"), self._token) and scheme.lower() == "bearer"
        given = self._given(cookies)
        # All of them, whichever it is: how long that takes tells nothing.
        return bearer or sum(hmac.compare_digest(given, one) for one in self._ids) > 0

    @property
    def are_needed(self) -> bool:
        """False where anybody may ask."""
        return self._token is not None

    def _given(self, cookies: str) -> bytes:
        return cookie_parser(cookies).get(self._name, "").encode()
