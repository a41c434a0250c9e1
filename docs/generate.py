"""Writes the reference pages from the code they describe: `python docs/generate.py`.

A test fails when a committed page differs from what this would write.
"""

import ast
import importlib
import inspect
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

import click

from speciate import catalogue, config, hooks, stages
from speciate.catalogue import KINDS
from speciate.cli import COMMANDS, group
from speciate.cli.failures import EXIT_CODES
from speciate.commands import announced
from speciate.describe import Key, describe
from speciate.hooks import STAGES
from speciate.metrics import LABELS, METRICS, Metric
from speciate.plugins import installed
from speciate_schemas import (
    BenchmarkConfig,
    BundleManifest,
    Card,
    ComparisonConfig,
    DataOptions,
    Epoch,
    FitConfig,
    KnownClasses,
    MethodConfig,
    PipelineConfig,
    RunMetrics,
    SealedFile,
    Strict,
    SupportCard,
    SupportRule,
    TrainingReport,
)
from speciate_schemas.replay import CategoryPurity, Growth, Shares, TemporalBin, Timing

HERE = Path(__file__).parent
DISTRIBUTION = "speciate"
NOTE = "<!-- Written by docs/generate.py from the code: change it there. -->"

CONFIGURATION = """\
# Configuration

One TOML file is one pipeline. Each section is a stage: `plugin = "name"` and that plugin's own options, which are
checked, with all else, before anything runs. An unknown key is an error that names it.

- `speciate init` writes such a file with every key explained.
- `speciate check FILE` checks one without running it.
- `--set section.key=value` overrides any key on the command line. The value is TOML; what is not is taken as text.

Relative paths are relative to the directory Speciate is started in."""

CLI = """\
# Command line

Each command tells its arguments and options with `--help`. Results go to standard output, progress, logs and errors
to standard error. The command runs with one BLAS thread, which is fastest for the small products of a head; set
`OPENBLAS_NUM_THREADS` for another number. In a program that imports Speciate it is yours to set, before NumPy is
imported."""

FAILING = """\
## Exit codes

An error is one line on standard error that begins with `speciate: error:`. Usage errors come with the command's
usage. `SPECIATE_DEBUG=1` in the environment adds the traceback."""

HOOKS = """\
# Hooks

A plugin is a module that implements one hook and is announced by an entry point of the group `speciate`, named
`stage.name`. In the `pyproject.toml` of its package:

```toml
[project.entry-points.speciate]
"density.mine" = "my_package.my_density"
```

And in that module:

```python
from speciate.hooks import Provider, hookimpl
from speciate.stages import Density


@hookimpl
def speciate_density() -> Provider[Density]:
    return Provider(options=MyOptions, create=MyDensity)
```

`plugin = "mine"` in the section `[density]` of a configuration then chooses it. Built-in plugins come in through the
same door. A plugin is imported only when it is used, and a broken one never stops a pipeline without it;
`speciate plugins` tells what is wrong with it.

A package brings a command along in the same way. The entry point `"command.mine" = "my_package.my_command"` names a
module with a [click](https://click.palletsprojects.com) command called `command`, which is then `speciate mine`;
`speciate topics` is one. Its first line of help is shown by `speciate --help`, so the module imports what is heavy
inside its functions. An error of `speciate.errors` that it raises becomes one line and an exit code. A name that is
built in, or that two packages have, is refused."""


BENCHMARKS = """\
# Benchmarks

Replaying recorded streams takes three kinds of TOML files. A *benchmark* says which events are known and in which order
the others come; a *method* is a density and a policy; a *comparison* names many of both. Ready ones are called by name,
your own by the path of a file that ends with `.toml`. [replay.md](replay.md) tells how they are used."""

CATALOGUES = """\
## Bringing your own along

A package brings benchmarks, methods and comparisons along with an entry point of the group `speciate` that names a
package with folders `benchmarks`, `methods` and `comparisons` of TOML files:

```toml
[project.entry-points.speciate]
"catalogue.mine" = "my_package.my_catalogue"
```"""

FIGURES = """\
## What a run comes to

`run.json` of a run has these under `metrics`; `assignments.npy` beside it has one row an event."""


FITTING = """\
## Fitting

`speciate fit --config FILE` takes a TOML file with these sections; [images.md](images.md) tells what it does with them.
Any key can be overridden with `--set`."""

BUNDLES = """\
## A model

`bundle.json` of a model that `speciate fit` wrote has these."""

WATCHING = """\
# Metrics and health

`speciate run CONFIG --page` serves them at 127.0.0.1:8600 (extra `page`), `--page-address HOST:PORT` elsewhere.

| path | answer |
| --- | --- |
| `/metrics` | every metric below, in Prometheus' text format |
| `/live` | 200 while the process turns; 503 if its event loop has not for 5 s, so that it is best started again |
| `/ready` | 200 once every task of this process is restored and connected; 503 with a line for each reason while it \
starts, loads the encoder, restores, folds again what was answered before, stops, or while a broker is away |

A broker that falls silent is noticed when an operation on it fails or, where nothing is going on, within the source's
`stuck_ms`; until then `/ready` holds.

They come from the server of the live page; [page.md](page.md) tells who may ask, and what is refused.
[examples/grafana](../examples/grafana) has a dashboard ready to import.

## Logs

On a terminal lines for people; anywhere else, on standard error, one JSON object a line. What is about a task has
`task`, the number of its partition. A line about one input has its `stream`, `id`, `sequence` and `origin`, that is,
file and place, or topic, partition and offset (`frames/3@1207`): each change by hand, and rejections with `stage`,
`error`, `reason` and `dead_letter`. Of many of a kind at once the first 5 are told and then one a second, which says
with `others` how many more there were before it; the outputs have all.

## Traces

With the extra `traces`, and `OTEL_EXPORTER_OTLP_ENDPOINT` (or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`) set to where a
collector takes OTLP over HTTP, `speciate run` sends spans: `speciate.encoder`, `speciate.head` and `speciate.sink` for
each batch, with its number of `events`; `speciate.commit` and `speciate.snapshot` within them, with the `sequence` they
stand for; and `speciate.restore` for each task that is taken up. OpenTelemetry's other variables, such as
`OTEL_SERVICE_NAME` and those of its batches and headers, hold. A program hands a tracer provider of its own to
`speciate.tracing.use`."""


def pages() -> dict[str, str]:
    """Every page by file name."""
    parts = {
        "configuration.md": configuration(),
        "cli.md": command_line(),
        "hooks.md": hook_reference(),
        "benchmarks.md": benchmarks(),
        "metrics.md": watching(),
    }
    return {name: "\n\n".join([NOTE, *blocks]) + "\n" for name, blocks in parts.items()}


# ---- metrics.md


def watching() -> Iterator[str]:
    """How a run is watched, every metric, and what its labels mean."""
    yield WATCHING
    yield "## Metrics"
    yield table(("metric", "type", "labels", "meaning"), [metric_row(metric) for metric in METRICS.values()])
    yield "## Labels"
    yield table(("label", "meaning"), [(f"`{name}`", meaning) for name, meaning in LABELS.items()])
    yield "## Buckets"
    histograms = [metric for metric in METRICS.values() if metric.buckets]
    yield table(
        ("histogram", "upper ends"),
        [(f"`{metric.name}`", ", ".join(f"{end:g}" for end in metric.buckets)) for metric in histograms],
    )


def metric_row(metric: Metric) -> tuple[str, str, str, str]:
    """One metric in the table of all."""
    return f"`{metric.name}`", metric.kind, ", ".join(f"`{label}`" for label in metric.labels), metric.help


# ---- benchmarks.md


def benchmarks() -> Iterator[str]:
    """Keys of the three kinds of files, what is ready, and the figures of a run."""
    yield BENCHMARKS
    for heading, struct in (
        ("A benchmark", BenchmarkConfig),
        ("[data]", DataOptions),
        ("[known]", KnownClasses),
        ("[support]", SupportRule),
        ("A method", MethodConfig),
        ("A comparison", ComparisonConfig),
    ):
        yield f"## {heading}"
        yield key_table(describe(struct))
    for kind, struct in KINDS.items():
        yield f"## Ready {kind}"
        configs = [(name, catalogue.load(kind, name, struct)[1]) for name in catalogue.ready(kind)]
        yield table(("name", "what it is"), [(f"`{name}`", told(one)) for name, one in configs])
    yield CATALOGUES
    yield FIGURES
    for struct in (RunMetrics, Shares, TemporalBin, Growth, Timing, CategoryPurity):
        yield f"### {struct.__name__}"
        yield inspect.getdoc(struct) or ""
        rows = [(f"`{key.name}`", key.description) for key in describe(struct)]
        yield table(("figure", "meaning"), rows)


def told(one: Strict) -> str:
    """Title and about of a ready file, in one line."""
    about = " ".join(getattr(one, "about", "").split())
    return f"{one.title}{'.' if about else ''} {about}".strip()


# ---- configuration.md


def configuration() -> Iterator[str]:
    """The engine's keys, then each built-in plugin's."""
    yield CONFIGURATION
    yield "## Sections"
    yield key_table(describe(PipelineConfig))
    for section, struct in config.OWN_SECTIONS.items():
        yield f"## [{section}]"
        yield key_table(describe(struct))
    for stage in STAGES:
        sections = [f"`[{section}]`" for section, of in config.SECTION_STAGES.items() if of == stage]
        yield f"## Plugins for {' and '.join(sections)}"
        for name in built_in(stage):
            yield from plugin(stage, name)
    yield FITTING
    yield key_table(describe(FitConfig))
    for name in built_in("encoder"):
        training = installed().provider("encoder", name).training
        if training is not None:
            yield f"### [training] of encoder `{name}`"
            yield key_table(describe(training))
    yield BUNDLES
    for struct in (BundleManifest, SealedFile, Card, SupportCard, TrainingReport, Epoch):
        yield f"### {struct.__name__}"
        yield inspect.getdoc(struct) or ""
        yield table(("key", "meaning"), [(f"`{key.name}`", key.description) for key in describe(struct)])


def built_in(stage: str) -> list[str]:
    """Names of our own plugins: what else is installed here is not documented here."""
    plugins = installed()
    return [name for name in plugins.names(stage) if plugins.info(stage, name).package == DISTRIBUTION]


def plugin(stage: str, name: str) -> Iterator[str]:
    """One plugin: what it is, what it needs, its options."""
    provider = installed().provider(stage, name)
    yield f"### {stage} `{name}`"
    # The module's opening paragraph is for users; what follows it, for those who read the code.
    module = importlib.import_module(installed().info(stage, name).module)
    yield (inspect.getdoc(module) or "").partition("\n\n")[0]
    if provider.suffixes:
        yield f"Reads {', '.join(f'`{suffix}`' for suffix in provider.suffixes)}."
    if provider.install:
        yield f"Needs `pip install '{provider.install}'`."
    keys = describe(provider.options)
    yield key_table(keys) if keys else "No options."


def key_table(keys: Iterable[Key]) -> str:
    """Keys with type, default and description."""
    rows = [(f"`{key.name}`", key.type, default(key), key.description) for key in keys]
    return table(("key", "type", "default", "description"), rows)


def default(key: Key) -> str:
    """What happens when the key is left out."""
    if key.required:
        return "required"
    return "" if key.default is None else f"`{key.default}`"


# ---- cli.md


def command_line() -> Iterator[str]:
    """Every command with its arguments and options, then the exit codes."""
    yield CLI
    for one, context in commands():
        yield from command(one, context)
    yield FAILING
    yield table(("code", "meaning"), [(str(code), meaning) for code, meaning in EXIT_CODES.items()])


def commands() -> Iterator[tuple[click.Command, click.Context]]:
    """The group, every command of ours, and the commands below those that are groups themselves."""
    context = click.Context(group, info_name="speciate", **group.context_settings)
    yield group, context
    ours = [one.name for one in announced() if one.package == DISTRIBUTION]
    for name in [*COMMANDS, *ours]:
        yield from below(group, context, name)


def below(parent: click.Group, context: click.Context, name: str) -> Iterator[tuple[click.Command, click.Context]]:
    """A command of a group, and those below it."""
    one = parent.get_command(context, name)
    assert one is not None  # noqa: S101  # the lists name what exists
    own = click.Context(one, parent=context, info_name=name)
    yield one, own
    if isinstance(one, click.Group):
        for each in one.list_commands(own):
            yield from below(one, own, each)


def command(one: click.Command, context: click.Context) -> Iterator[str]:
    """One command: usage, what it does, its options."""
    yield f"## {context.command_path}"
    yield f"```\n{' '.join([context.command_path, *one.collect_usage_pieces(context)])}\n```"
    yield inspect.cleandoc(one.help or "")
    options = [param for param in one.get_params(context) if isinstance(param, click.Option)]
    yield table(("option", "meaning"), [(f"`{flags(option)}`", option.help or "") for option in options])


def flags(option: click.Option) -> str:
    """How an option is written. Not click's own words: those differ from version to version."""
    # Sorted, short names first: older clicks keep the names of --help in a set, whose order differs from run to run.
    names = ", ".join(sorted([*option.opts, *option.secondary_opts], key=lambda name: (len(name), name)))
    return names if option.is_flag else f"{names} {option.metavar or option.type.name.upper()}"


# ---- hooks.md


def hook_reference() -> Iterator[str]:
    """The hooks, the Provider they return, and the protocols of the stages."""
    yield HOOKS
    yield "## The hooks"
    for hook in hook_functions():
        yield f"### {hook.name}"
        yield f"```python\ndef {signature(hook)}\n```"
        yield ast.get_docstring(hook) or ""
    yield "## Provider"
    yield from class_reference(class_node(hooks, "Provider"))
    yield "## The stages"
    yield inspect.getdoc(stages) or ""
    for node in classes(stages):
        yield f"### {node.name}"
        yield from class_reference(node)


def hook_functions() -> list[ast.FunctionDef]:
    """The hook specifications, as they are written."""
    functions = [node for node in tree(hooks).body if isinstance(node, ast.FunctionDef)]
    return [node for node in functions if [ast.unparse(one) for one in node.decorator_list] == ["hookspec"]]


def classes(module: ModuleType) -> list[ast.ClassDef]:
    """The classes of a module, in the order of the file."""
    return [node for node in tree(module).body if isinstance(node, ast.ClassDef)]


def class_node(module: ModuleType, name: str) -> ast.ClassDef:
    """One class of a module."""
    return next(node for node in classes(module) if node.name == name)


def class_reference(node: ast.ClassDef) -> Iterator[str]:
    """A class: docstring, fields, methods."""
    yield ast.get_docstring(node) or ""
    documented = fields(node)
    if documented:
        rows = [(f"`{name}`", kind and f"`{kind}`", text) for name, kind, text in documented]
        yield table(("field", "type", "meaning"), rows)
    if methods(node):
        yield "\n\n".join(item(method) for method in methods(node))


def methods(node: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The public methods."""
    functions = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [one for one in functions if not one.name.startswith("_")]


def fields(node: ast.ClassDef) -> list[tuple[str, str, str]]:
    """Name, type and docstring of each field: of the class, and what its constructor keeps."""
    found = attributes(node.body)
    for one in node.body:
        if isinstance(one, ast.FunctionDef) and one.name == "__init__":
            given = {arg.arg: ast.unparse(arg.annotation) for arg in one.args.kwonlyargs if arg.annotation}
            found += [(name, kind or given.get(name, ""), text) for name, kind, text in attributes(one.body)]
    return found


def attributes(body: Sequence[ast.stmt]) -> list[tuple[str, str, str]]:
    """Assigned names with their types and the text below them."""
    found = []
    for statement, following in zip(body, [*body[1:], None], strict=True):
        match statement:
            case ast.AnnAssign(target=target, annotation=kind):
                found.append((ast.unparse(target).removeprefix("self."), ast.unparse(kind), text_of(following)))
            case ast.Assign(targets=[ast.Attribute(attr=name)], value=value):
                kind_of = type(value.value).__name__ if isinstance(value, ast.Constant) else ""
                found.append((name, kind_of, text_of(following)))
    return found


def text_of(statement: ast.stmt | None) -> str:
    """The text of a statement that is nothing but a string."""
    match statement:
        case ast.Expr(value=ast.Constant(value=str() as text)):
            return inspect.cleandoc(text).replace("\n", " ")
        case _:
            return ""


def item(method: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """A method as an item of a list: its signature as it is called, and its docstring."""
    kind = "async " if isinstance(method, ast.AsyncFunctionDef) else ""
    is_property = any(ast.unparse(one) == "property" for one in method.decorator_list)
    called = signature(method).replace("(self, ", "(", 1).replace("(self)", "" if is_property else "()", 1)
    return f"- `{kind}{called}`\n\n{textwrap.indent(ast.get_docstring(method) or '', '  ')}"


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Name, parameters and result as written."""
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{node.name}({ast.unparse(node.args)}){returns}"


def tree(module: ModuleType) -> ast.Module:
    """A module's source, parsed: signatures and attribute docstrings as they are written."""
    return ast.parse(inspect.getsource(module))


# ---- Markdown


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; a bar inside a cell is escaped."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def main() -> None:
    """Write every page."""
    for name, text in pages().items():
        (HERE / name).write_text(text, "utf-8")
        print(HERE / name)


if __name__ == "__main__":
    main()
