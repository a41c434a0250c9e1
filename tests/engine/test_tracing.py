"""Traces: a span for what each stage does, sent to where the environment says, and none of it unless asked for."""

import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from worlds import make_pipeline, make_tree, stream

from speciate import tracing
from speciate.errors import ConfigError


@pytest.fixture
def exported():
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.use(provider)
    yield exporter
    tracing.use(None)


async def test_every_batch_commit_snapshot_and_restore_is_a_span(tmp_path, exported):
    tree = make_tree(tmp_path, stream(120))
    await make_pipeline(tree).run()
    found = exported.get_finished_spans()
    assert {one.name for one in found} == {
        "speciate.restore",
        "speciate.head",
        "speciate.sink",
        "speciate.commit",
        "speciate.snapshot",
    }
    for name in ("speciate.head", "speciate.sink"):
        assert sum(one.attributes["events"] for one in found if one.name == name) == 120
    sinks = {one.context.span_id for one in found if one.name == "speciate.sink"}
    commits = [one for one in found if one.name == "speciate.commit" and one.parent is not None]
    assert commits
    assert {one.parent.span_id for one in commits} <= sinks, "a commit is a part of what the sink does"


async def test_it_is_off_unless_asked_for(tmp_path, exported):
    tracing.use(None)
    await make_pipeline(make_tree(tmp_path, stream(5))).run()
    assert exported.get_finished_spans() == ()
    assert tracing.span("head") is tracing.span("sink")


def test_spans_go_to_the_collector_that_the_environment_names(monkeypatch):
    got = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            got.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    with tracing.traced(), tracing.span("head", events=3):
        pass
    server.shutdown()
    server.server_close()
    [(path, body)] = got
    assert path == "/v1/traces"
    sent = ExportTraceServiceRequest.FromString(body).resource_spans[0]
    assert [span.name for scope in sent.scope_spans for span in scope.spans] == ["speciate.head"]
    assert {one.key: one.value.string_value for one in sent.resource.attributes}["service.name"] == "speciate"
    assert tracing.span("head") is tracing.span("sink"), "and off again"


def test_a_missing_extra_is_one_clear_line(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    told = r"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT .* pip install 'speciate\[traces\]'"
    with pytest.raises(ConfigError, match=told), tracing.traced():
        pass
