"""`speciate page` as a real process: the page of a pipeline that does not run, and one clear line if there is none."""

import shutil

import msgspec
import pytest
from commands import left_behind, must, started, until, write_stream
from test_cli_page import answer_of, url_of

from speciate_schemas.page import CategoryPage, StateView

EVENTS = 200


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A pipeline that has run to its end."""
    folder = tmp_path_factory.mktemp("done")
    config = write_stream(folder, events=EVENTS)
    must("run", config)
    return folder, config


def asked(state, folder, *paths, tasks=1, lines=1):
    """What the page says, once it has looked at each task, and how it ends: with so many lines on standard error."""
    told = folder / "stderr"
    with (
        told.open("wb") as stderr,
        started("page", state, "--page-address", "127.0.0.1:0", stderr=stderr, cwd=folder) as page,
    ):
        url = url_of(page, told)
        until(lambda: len(answer_of(url, "/api/state").json()["universes"]) == tasks, page)
        answers = [answer_of(url, path).content for path in paths]
        page.terminate()
        assert page.wait(timeout=60) == 0
    # Whoever was put off for a moment asked again; that he was is told once.
    said = [line for line in told.read_text().splitlines() if "a request to the page was refused" not in line]
    assert len(said) == lines, said
    return answers


def test_a_configuration_and_its_state_folder_show_the_same_and_change_nothing(done):
    folder, config = done
    before = left_behind(folder)
    paths = ("/api/state", "/api/categories")
    state, categories = asked(config, folder, *paths)
    again, same = asked(folder / "out" / "state", folder, *paths)
    found = msgspec.json.decode(state, type=StateView)
    assert (found.running, found.answered, found.title) == (False, EVENTS, config.stem)
    assert msgspec.json.decode(again, type=StateView).universes == found.universes
    assert categories == same
    assert sum(one.seen for one in msgspec.json.decode(same, type=CategoryPage).categories) == found.assigned
    assert left_behind(folder) == before


def test_the_states_of_several_partitions_are_several_tasks(done, tmp_path):
    folder, _ = done
    for number in (0, 3):
        shutil.copytree(folder / "out" / "state", tmp_path / "states" / f"partition-{number}")
    (state,) = asked(tmp_path / "states", tmp_path, "/api/state", tasks=2, lines=2)
    assert [one.task for one in msgspec.json.decode(state, type=StateView).universes] == [0, 3]
    # A store cannot be asked which partitions it has, so it is told which were tried.
    first = (tmp_path / "stderr").read_text().splitlines()[0]
    assert first.startswith(f"speciate: shown of the partitions 0 to 1023 in {tmp_path / 'states'}: 2; for any above")
    assert first.endswith("for any above them, name the pipeline's TOML file")


def test_a_state_folder_is_shown_as_it_was_saved(speciate, done):
    folder, _ = done
    overrides = ("-s", "policy.alpha=0.1", "-s", "run.batch_events=3")
    refused = speciate("page", folder / "out" / "state", *overrides, "--page-address", "nowhere")
    assert (refused.exit_code, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert "-s policy.alpha=0.1: " in refused.stderr
    assert "leave -s out, or name the pipeline's TOML file" in refused.stderr


@pytest.mark.parametrize(
    ("state", "code", "told"),
    [
        ("run.toml", 3, "holds no state yet: run the pipeline first"),
        (".", 3, "holds no state: name the folder of a [store]"),
        ("nothing.toml", 2, "cannot read the configuration"),
    ],
)
def test_where_there_is_no_state_one_line_says_so(speciate, tmp_path, state, code, told):
    write_stream(tmp_path, events=3).rename(tmp_path / "run.toml")
    done = speciate("page", state)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (code, "", 1)
    assert told in done.stderr


def test_a_damaged_state_is_told(speciate, done, tmp_path):
    folder, _ = done
    shutil.copytree(folder / "out" / "state", tmp_path / "state")
    for one in (tmp_path / "state" / "snapshots").iterdir():
        one.write_bytes(one.read_bytes()[:-1])
    refused = speciate("page", "state")
    assert refused.exit_code == 3
    assert "holds no whole snapshot" in refused.stderr.splitlines()[-1]
