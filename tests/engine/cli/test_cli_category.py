"""`speciate category`: control events to wherever a pipeline takes them in."""

import json
import re
import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import msgspec
import pytest
from commands import left_behind, lines, must, refusal, started, until, write_stream

from speciate import hooks, plugins
from speciate_schemas import ForgetCategory, MergeCategories, RenameCategory, Strict, UndoLast


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
        (["undo"], UndoLast(id="", stream="door")),
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
        (["forget", "4", "-s", "source.plugin=deaf"], "the pipeline has no [density]: there are no categories"),
        (["rename", "4", ""], "cannot rename it: Expected `str` of length >= 1 - at `$.label`"),
        (["rename", "4", "a\x1b[2J"], "cannot rename it: label 'a\\x1b[2J' has control characters"),
        (["rename", "4", "\udcff"], "cannot rename it: "),
        (["forget", "4", "--stream", "\udcff"], "cannot forget it: "),
        (["forget", str(2**63)], f"{2**63} is not in the range"),
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


SPLITTING = ("-s", "density.plugin=full", "-s", "policy.alpha=1e30")
"""So many births that categories are parts of clusters."""


@pytest.fixture(scope="module")
def split(tmp_path_factory):
    """A pipeline that has run to its end, with too many categories."""
    config = write_stream(tmp_path_factory.mktemp("suggest"), events=120, seed=3)
    must("run", config, *SPLITTING)
    return config


def test_suggestions_are_those_of_the_newest_snapshot(split):
    before = left_behind(split.parent)
    found = json.loads(must("category", "suggest", split, *SPLITTING, "--json", "--most", "7").stdout)
    state = json.loads(must("inspect", split, *SPLITTING, "--json").stdout)
    assert found["snapshot_sequence"] == state["snapshot_sequence"]
    categories = {one["id"]: one for one in state["categories"]}
    assert len(found["suggestions"]) == 7
    for one in found["suggestions"]:
        pair = [categories[one[side]] for side in ("keep", "absorb")]
        assert one["labels"] == [each["label"] for each in pair]
        assert one["counts"] == [each["count"] for each in pair]
        assert one["log_bayes_factor"] > 0.0
    factors = [one["log_bayes_factor"] for one in found["suggestions"]]
    assert factors == sorted(factors, reverse=True)
    assert left_behind(split.parent) == before, "to look must not change anything"


def test_the_table_has_a_row_a_suggestion(split):
    found = json.loads(must("category", "suggest", split, *SPLITTING, "--json").stdout)["suggestions"]
    header, _, *rows = must("category", "suggest", split, *SPLITTING).stdout.splitlines()
    assert header.split() == ["keep", "label", "events", "absorb", "label", "events", "log", "Bayes", "factor"]
    assert len(rows) == len(found) == 20
    for row, one in zip(rows, found, strict=True):
        cells = row.split()
        assert (cells[0], cells[-1]) == (str(one["keep"]), f"{one['log_bayes_factor']:,.2f}")


def test_nothing_to_suggest_is_said_unless_all_are_wanted(tmp_path):
    config, exact = write_stream(tmp_path, events=5), ("-s", "density.plugin=full")
    must("run", config, *exact)
    done = must("category", "suggest", config, *exact)
    assert done.stdout == "no suggestion: every category is rather one of its own\n"
    everything = json.loads(must("category", "suggest", config, *exact, "--all", "--json").stdout)["suggestions"]
    assert everything
    assert max(one["log_bayes_factor"] for one in everything) < 0.0


def test_each_stream_has_suggestions_of_its_own(tmp_path):
    config, own = write_stream(tmp_path, events=60), ("-s", 'run.universe="stream"', *SPLITTING)
    must("run", config, *own)
    found = json.loads(must("category", "suggest", config, *own, "--stream", "crash", "--json").stdout)
    assert found["suggestions"]
    assert "name it with --stream" in refusal(2, "category", "suggest", config, *own)
    said = refusal(2, "category", "suggest", config, *own, "--stream", "elsewhere")
    assert "--stream 'elsewhere' has no categories in the newest snapshot: streams that have are 'crash'" in said
    # The snapshot knows whose its categories are, whatever the configuration says by now.
    said = refusal(2, "category", "suggest", config, *SPLITTING)
    assert "each stream has its own categories in the newest snapshot: name one of 'crash' by --stream" in said


def test_categories_that_streams_share_are_those_of_no_stream(split):
    for universe in ("stream", "partition"):
        chosen = ("-s", f'run.universe="{universe}"', *SPLITTING)
        said = refusal(2, "category", "suggest", split, *chosen, "--stream", "crash")
        assert "--stream 'crash': streams share their categories in the newest snapshot: leave it out" in said


def test_what_cannot_be_suggested_is_told(split, tmp_path):
    plain = write_stream(tmp_path, events=5)
    assert refusal(3, "category", "suggest", plain).endswith("/state holds no categories yet: run the pipeline first\n")
    must("run", plain)
    said = refusal(2, "category", "suggest", plain)
    assert said.startswith("density 'nearest-mean' cannot tell what a merge is worth")
    assert said.endswith(": full\n")
    assert "numbered from 0 to 0" in refusal(2, "category", "suggest", split, *SPLITTING, "--partition", "1")


@pytest.fixture
def well(speciate):
    """The command line in this process, for commands that must succeed."""

    def run(*args):
        done = speciate(*args)
        assert done.exit_code == 0, done.output
        return done.stdout

    return run


def categories_of(config, run):
    return {one["id"]: one for one in json.loads(run("inspect", config, "--json"))["categories"]}


def test_categories_of_a_pipeline_on_files_are_changed_when_it_runs_next(well, tmp_path):
    well("demo", "--directory", tmp_path)
    config = tmp_path / "demo.toml"
    before = categories_of(config, well)
    born = [number for number, one in before.items() if not one["known"]][:2]
    well("category", "rename", config, 3, "<b>three</b>")
    well("category", "merge", config, *born)
    told = json.loads(well("category", "forget", config, 0, "--json"))
    assert (told["partition"], told["place"]) == (0, f"{tmp_path}/state as controls@2")
    assert categories_of(config, well) == before, "nobody has run it yet"
    well("run", config)
    after = categories_of(config, well)
    assert after.keys() == before.keys() - {0, born[1]}
    assert (after[3]["label"], after[born[0]]["count"]) == ("<b>three</b>", sum(before[one]["count"] for one in born))
    answers = (tmp_path / "assignments.jsonl").read_text().splitlines()
    assert [json.loads(line)["control"]["type"] for line in answers[-3:]] == ["rename.v1", "merge.v1", "forget.v1"]
    well("category", "undo", config)
    well("run", config)
    assert categories_of(config, well)[0] == before[0]
    well("run", config, "--fresh")
    assert categories_of(config, well) == before, "to start over discards what was changed by hand, too"


def test_categories_of_a_running_pipeline_on_files_are_changed(well, tmp_path):
    config = write_stream(tmp_path, events=40)
    answers = tmp_path / "out" / "answers.jsonl"
    with started("run", config, "--follow") as process:
        until(lambda: lines(answers) == 40, process)
        well("category", "rename", config, 1, "the first")
        until(lambda: lines(answers) == 41, process)
        process.terminate()
        assert process.wait(60) == 0
    assert json.loads(answers.read_bytes().splitlines()[-1])["origin"] == "controls@0"
    assert categories_of(config, well)[1]["label"] == "the first"
