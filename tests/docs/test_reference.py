"""Nothing undocumented: the pages are what the code says, and the code says it of everything."""

import importlib.util
import inspect
from pathlib import Path

import click
import pytest

from speciate import hooks, stages
from speciate.describe import describe
from speciate.metrics import LABELS, METRICS
from speciate.plugins import installed
from speciate_schemas import (
    BenchmarkConfig,
    BundleManifest,
    Card,
    CommitOptions,
    ComparisonConfig,
    DataOptions,
    Epoch,
    FitConfig,
    KnownClasses,
    MethodConfig,
    ModelOptions,
    PipelineConfig,
    RunMetrics,
    RunOptions,
    SealedFile,
    SupportCard,
    SupportRule,
    TrainingReport,
)
from speciate_schemas.replay import CategoryPurity, Growth, Shares, TemporalBin, Timing

DOCS = Path(__file__).parents[2] / "docs"


def load_generator():
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generate = load_generator()

CONFIGURED = [PipelineConfig, ModelOptions, RunOptions, CommitOptions, FitConfig]
BUNDLED = [BundleManifest, SealedFile, Card, SupportCard, TrainingReport, Epoch]
REPLAYED = [BenchmarkConfig, DataOptions, KnownClasses, SupportRule, MethodConfig, ComparisonConfig]
FIGURES = [RunMetrics, Shares, TemporalBin, Growth, Timing, CategoryPurity]
EVERY_STRUCT = [*CONFIGURED, *BUNDLED, *REPLAYED, *FIGURES]

BUILT_IN = [(stage, name) for stage in hooks.STAGES for name in generate.built_in(stage)]
EVERY_COMMAND = list(generate.commands())


@pytest.mark.parametrize("name", ["configuration.md", "cli.md", "hooks.md", "benchmarks.md", "metrics.md"])
def test_the_committed_page_is_what_the_code_says(name):
    written = (DOCS / name).read_text("utf-8") if (DOCS / name).exists() else ""
    assert written == generate.pages()[name], "run: python docs/generate.py"


@pytest.mark.parametrize("struct", EVERY_STRUCT)
def test_every_key_of_the_engine_is_described(struct):
    assert [key.name for key in describe(struct) if not key.description] == []


@pytest.mark.parametrize(("stage", "name"), BUILT_IN)
def test_every_option_of_a_plugin_is_described(stage, name):
    options = installed().provider(stage, name).options
    assert [key.name for key in describe(options) if not key.description] == []


@pytest.mark.parametrize("name", generate.built_in("encoder"))
def test_every_option_of_a_training_is_described_and_on_the_page(name):
    training = installed().provider("encoder", name).training
    page = (DOCS / "configuration.md").read_text("utf-8")
    for key in [] if training is None else describe(training):
        assert key.description, key.name
        assert f"| `{key.name}` |" in page.partition(f"[training] of encoder `{name}`")[2], key.name


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.name)
def test_every_metric_is_on_the_page_with_its_labels(metric):
    page = (DOCS / "metrics.md").read_text("utf-8")
    assert f"| `{metric.name}` | {metric.kind} |" in page
    assert metric.help in page
    for label in metric.labels:
        assert LABELS[label]
        assert f"| `{label}` |" in page


@pytest.mark.parametrize(("stage", "name"), BUILT_IN)
def test_every_plugin_says_what_it_is(stage, name):
    assert importlib.import_module(installed().info(stage, name).module).__doc__


@pytest.mark.parametrize(
    ("command", "context"), EVERY_COMMAND, ids=[context.command_path for _, context in EVERY_COMMAND]
)
def test_every_option_has_help_and_every_argument_is_told(command, context):
    assert command.help
    for param in command.get_params(context):
        if isinstance(param, click.Option):
            assert param.help, param.opts
        else:
            assert param.metavar, param.name
            assert param.metavar.strip("[].") in command.help


def test_commands_below_others_and_those_of_plugins_are_told():
    assert {"speciate run", "speciate category merge", "speciate topics create"} <= {
        context.command_path for _, context in EVERY_COMMAND
    }


def test_every_hook_has_a_docstring():
    found = {node.name for node in generate.hook_functions()}
    assert found == {f"speciate_{stage}" for stage in hooks.STAGES}
    assert all(getattr(hooks, name).__doc__ for name in found)


def test_every_field_of_a_provider_is_told():
    assert all(text for _, _, text in generate.fields(generate.class_node(hooks, "Provider")))


@pytest.mark.parametrize("node", generate.classes(stages), ids=lambda node: node.name)
def test_every_class_and_method_of_the_stages_is_told(node):
    kind = getattr(stages, node.name)
    assert inspect.getdoc(kind)
    for method in generate.methods(node):
        assert inspect.getdoc(getattr(kind, method.name)), method.name
