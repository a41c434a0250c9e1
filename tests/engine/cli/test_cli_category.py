"""`speciate category`: control events to wherever the source of a pipeline reads."""

import json
import re
import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import msgspec
import pytest

from speciate import hooks, plugins
from speciate_schemas import ForgetCategory, MergeCategories, RenameCategory, Strict


class Options(Strict, frozen=True):
    """How many tasks there are."""

    tasks: int = 1


class Post:
    """Plugins whose sources keep what is sent to them."""

    def __init__(self):
        self.sent = []
        self.asked = []

    async def send(self, options, number, control):
        self.sent.append((number, control))
        return f"log/{number}@7"

    async def tasks(self, options, together):
        self.asked.append(together)
        return 1 if together else options.tasks


@pytest.fixture
def post(monkeypatch):
    post = Post()
    providers = {
        "source.hearing": ("speciate_source", {"send": post.send, "tasks": post.tasks}),
        "source.simple": ("speciate_source", {"send": post.send}),
        "source.deaf": ("speciate_source", {}),
        "sink.plain": ("speciate_sink", {}),
    }
    entries = []
    for number, (name, (hook, more)) in enumerate(providers.items()):
        module = ModuleType(f"made_up_for_control_{number}")
        setattr(module, hook, hooks.hookimpl(providing(hook, more)))
        monkeypatch.setitem(sys.modules, module.__name__, module)
        entries.append(EntryPoint(name, module.__name__, "speciate"))
    found = plugins.Plugins(entries)
    monkeypatch.setattr(plugins, "installed", lambda: found)
    return post


def providing(name, more):
    def hook():
        return hooks.Provider(options=Options, create=lambda options: options, **more)

    hook.__name__ = name
    return hook


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "pipeline.toml"
    path.write_text('[source]\nplugin = "hearing"\n[sink]\nplugin = "plain"\n')
    return path


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["rename", "3", "a bird"], RenameCategory(id="", category=3, label="a bird", stream="door")),
        (["merge", "0", "12"], MergeCategories(id="", keep=0, absorb=12, stream="door")),
        (["forget", "0"], ForgetCategory(id="", category=0, stream="door")),
    ],
)
def test_each_is_sent_as_its_event(speciate, post, config, arguments, expected):
    verb, *rest = arguments
    done = speciate("category", verb, config, *rest, "--stream", "door")
    assert done.exit_code == 0, done.output
    ((number, control),) = post.sent
    assert (number, msgspec.structs.replace(control, id="")) == (0, expected)
    assert re.fullmatch(rf"{verb}-[0-9a-f]{{32}}", control.id)
    assert done.stdout == f"{control.id} is in log/0@7: it takes effect when the pipeline comes to it\n"
    speciate("category", verb, config, *rest)
    assert post.sent[1][1].id != control.id


def test_json_is_for_programs(speciate, post, config):
    done = speciate("category", "forget", config, "4", "--partition", "2", "-s", "source.tasks=3", "--json")
    assert json.loads(done.stdout) == {"id": post.sent[0][1].id, "partition": 2, "place": "log/2@7"}


def test_several_tasks_need_a_partition(speciate, post, config):
    several = ("-s", "source.tasks=3")
    refused = speciate("category", "forget", config, "4", *several)
    assert refused.exit_code == 2
    assert "there are 3 tasks, each with categories of its own: say which with --partition, 0 to 2" in refused.stderr
    beyond = speciate("category", "forget", config, "4", "--partition", "3", *several)
    assert beyond.exit_code == 2
    assert "--partition 3: the tasks are numbered from 0 to 2" in beyond.stderr
    assert post.sent == []
    assert speciate("category", "forget", config, "4", *several, "-s", 'run.universe="shared"').exit_code == 0
    assert post.asked == [False, False, True]


def test_a_source_without_tasks_has_one(speciate, post, config):
    assert speciate("category", "forget", config, "4", "-s", "source.plugin=simple").exit_code == 0
    assert post.sent[0][0] == 0


def test_streams_with_categories_of_their_own_must_be_named(speciate, post, config):
    own = ("-s", 'run.universe="stream"')
    refused = speciate("category", "forget", config, "4", *own)
    assert refused.exit_code == 2
    assert "each stream has categories of its own, name it with --stream" in refused.stderr
    assert speciate("category", "forget", config, "4", *own, "--stream", "").exit_code == 0
    assert post.sent[0][1].stream == ""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["forget", "4", "-s", "source.plugin=deaf"], "source 'deaf' takes no control events from outside: put them"),
        (["rename", "4", ""], "cannot rename it: Expected `str` of length >= 1 - at `$.label`"),
        (["merge", "4", "4"], "KEEP and ABSORB are both 4"),
        (["forget", "-1"], "No such option"),
        (["forget", "four"], "'four' is not a valid integer"),
        (["forgive", "4"], "No such command 'forgive'"),
    ],
)
def test_what_cannot_be_sent_is_told(speciate, post, config, arguments, says):
    verb, *rest = arguments
    done = speciate("category", verb, config, *rest)
    assert done.exit_code == 2
    assert says in done.stderr
    assert post.sent == []
