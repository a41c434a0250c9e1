"""Traces for OpenTelemetry: a span for each batch that a stage works on, each commit, snapshot and restore.

Off unless the environment names a collector, or a program hands in a tracer provider of its own with `use`: then a
span costs a call and nothing else.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.metadata import version
from typing import Any

from speciate.errors import ConfigError

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""Environment variables of OpenTelemetry that say where traces go; without one of them there are none."""

_NOTHING: AbstractContextManager[Any] = nullcontext()
_tracer: Any = None


def span(name: str, **attributes: int | str) -> AbstractContextManager[Any]:
    """What is done in the block, as a span of this name."""
    if _tracer is None:
        return _NOTHING
    spanned: AbstractContextManager[Any] = _tracer.start_as_current_span(f"speciate.{name}", attributes=attributes)
    return spanned


def use(provider: Any) -> None:
    """Send spans to a tracer provider from here on; None for none."""
    global _tracer  # noqa: PLW0603  # one a process, as the provider is
    _tracer = None if provider is None else provider.get_tracer("speciate", version("speciate"))


@contextmanager
def traced() -> Iterator[None]:
    """While the block runs, send spans to where the environment says, if it does.

    Raises:
        ConfigError: if the extra is missing that it takes.
    """
    named = next((name for name in ENDPOINTS if os.environ.get(name)), None)
    provider = None if named is None else _exporting(named)
    use(provider)
    try:
        yield
    finally:
        use(None)
        if provider is not None:
            provider.shutdown()


def _exporting(named: str) -> Any:
    """A provider that sends to the collector which the environment variable names."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415  # extra
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{named} asks for traces, which need {error.name}: pip install 'speciate[traces]', or unset it"
        ) from error
    named_so = os.environ.get("OTEL_SERVICE_NAME", "speciate")
    provider = TracerProvider(resource=Resource.create({"service.name": named_so}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
