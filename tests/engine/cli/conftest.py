"""A command line in a world of plugins made for the test."""

import itertools
import sys
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Annotated

import msgspec
import pytest
from click.testing import CliRunner

from speciate import cli, hooks, plugins
from speciate_schemas import Strict

NUMBERS = itertools.count()


class Options(Strict, frozen=True):
    """Options of a made-up plugin."""

    path: Annotated[str, msgspec.Meta(description="Where it is.")]
    depth: Annotated[int, msgspec.Meta(ge=1, description="How deep.")] = 3
    note: Annotated[str | None, msgspec.Meta(description="Anything.")] = None


class NoOptions(Strict, frozen=True):
    """Nothing to set."""


def made_up(stage, options=NoOptions, **provider):
    """A module that provides a plugin of a stage."""
    module = ModuleType(f"made_up_{next(NUMBERS)}")

    def hook():
        return hooks.Provider(options=options, create=lambda options: options, **provider)

    hook.__name__ = f"speciate_{stage}"
    setattr(module, hook.__name__, hooks.hookimpl(hook))
    return module


@pytest.fixture
def world(monkeypatch):
    """Nothing but made-up plugins: one a stage, some with options, some that lack an extra, a broken one."""
    modules = {f"{stage}.plain": made_up(stage) for stage in hooks.STAGES}
    for stage in ("source", "encoder"):
        modules[f"{stage}.file"] = made_up(stage, Options)
        modules[f"{stage}.lacking"] = made_up(stage, requires=("no_such_module",), install="speciate[lacking]")
    for module in modules.values():
        monkeypatch.setitem(sys.modules, module.__name__, module)
    entries = [EntryPoint(name, module.__name__, "speciate") for name, module in modules.items()]
    entries.append(EntryPoint("sink.broken", "no_such_module", "speciate"))
    found = plugins.Plugins(entries)
    monkeypatch.setattr(plugins, "installed", lambda: found)
    return found


@pytest.fixture
def speciate(tmp_path, monkeypatch):
    """The command line, in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPECIATE_DEBUG", raising=False)

    def run(*args):
        return CliRunner().invoke(cli.group, [str(arg) for arg in args], prog_name="speciate")

    return run
