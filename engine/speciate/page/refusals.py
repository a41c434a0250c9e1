"""Refused requests: counted each, told once a kind, so that nobody can fill a log with them."""

from speciate.instruments import Instruments
from speciate.logs import get_logger

log = get_logger(__name__)


class Refusals:
    """Takes down what was refused."""

    def __init__(self, instruments: Instruments) -> None:
        self._instruments = instruments
        self._told: set[str] = set()

    def note(self, reason: str, **details: object) -> None:
        """Count a refusal; `reason` is one of a few, and `details` are told with the first of its kind."""
        self._instruments.value("speciate_page_refusals_total", reason).add()
        if reason not in self._told:
            self._told.add(reason)
            log.warning("a request to the page was refused; others like it are only counted", reason=reason, **details)
