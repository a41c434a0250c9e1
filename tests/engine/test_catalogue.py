"""Ready benchmarks, methods and comparisons, and files of one's own."""

import pytest

from speciate.catalogue import KINDS, load, ready
from speciate.errors import ConfigError
from speciate_schemas import BenchmarkConfig, MethodConfig

CASES = [(kind, name) for kind in KINDS for name in ready(kind)]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_every_ready_file_is_sound(kind, name):
    found, config = load(kind, name, KINDS[kind])
    assert found == name
    assert config.title


def test_the_papers_benchmarks_are_all_there():
    naturalist = {"fungi", "arachnida", "animalia", "mollusca"}
    paper = {"cifar100", "imagenet100", "cub", "cars", "herbarium19", "pets"} | naturalist
    assert paper | {"domainnet-clipart", "domainnet-painting"} <= set(ready("benchmarks"))
    for name in paper:
        about = load("benchmarks", name, BenchmarkConfig)[1].about
        assert f"{name}-ENCODER.npz" in about, "a ready file says what to put where"


def test_comparisons_name_what_is_ready():
    for name in ready("comparisons"):
        config = load("comparisons", name, KINDS["comparisons"])[1]
        assert set(config.benchmarks) <= set(ready("benchmarks"))
        assert set(config.methods) <= set(ready("methods"))


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(ConfigError, match="there is no benchmark 'petz': did you mean 'pets'"):
        load("benchmarks", "petz", BenchmarkConfig)


def test_a_file_of_ones_own_is_read_and_overridden(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('title = "Mine"\n[density]\nplugin = "full"\n[policy]\nplugin = "dp"\n')
    name, config = load("methods", str(path), MethodConfig, ["density.n_cap=7", "title=Other"])
    assert (name, config.title) == ("mine", "Other")
    assert config.density == {"plugin": "full", "n_cap": 7}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("title = ", r"is not valid TOML"),
        ('title = "x"\n', r"Object missing required field `density`"),
        ('titel = "x"\n', r"has no key 'titel': did you mean 'title'"),
    ],
)
def test_a_bad_file_is_refused_with_the_reason(tmp_path, text, reason):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=reason):
        load("methods", str(path), MethodConfig)


def test_a_catalogue_of_ones_own_is_found_and_a_broken_one_hides_nothing(tmp_path, monkeypatch):
    (tmp_path / "my_catalogue" / "methods").mkdir(parents=True)
    (tmp_path / "my_catalogue" / "__init__.py").touch()
    text = 'title = "Mine"\n[density]\nplugin = "full"\n[policy]\nplugin = "dp"\n'
    (tmp_path / "my_catalogue" / "methods" / "mine.toml").write_text(text)
    (tmp_path / "broken_catalogue.py").write_text("raise RuntimeError('broken')\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("my_catalogue", "broken_catalogue", "missing_catalogue"):
        metadata = tmp_path / f"{name}-1.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (metadata / "entry_points.txt").write_text(f"[speciate]\ncatalogue.{name} = {name}\n")
    assert "mine" in ready("methods")
    assert "dp-boa" in ready("methods")
    assert load("methods", "mine", MethodConfig)[1].title == "Mine"


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read .*none.toml: No such file"):
        load("methods", str(tmp_path / "none.toml"), MethodConfig)
