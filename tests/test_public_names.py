"""The public surface: few names, listed, documented, typed, and imported only when used."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import speciate


def test_the_list_is_sorted_and_the_same_everywhere():
    assert speciate.__all__ == sorted(set(speciate.__all__))
    assert set(speciate._HOMES) == set(speciate.__all__)
    assert set(dir(speciate)) == {*speciate.__all__, "__version__"}


@pytest.mark.parametrize("name", speciate.__all__)
def test_each_name_is_there_documented_and_at_home(name):
    thing = getattr(speciate, name)
    home = importlib.import_module(f"speciate.{speciate._HOMES[name]}")
    assert thing is getattr(home, name)
    assert (thing.__doc__ or "").strip()


def test_type_checkers_see_the_same_names():
    """They do not run `__getattr__`: each name is imported for them too."""
    source = Path(speciate.__file__).read_text("utf-8")
    block = source.partition("if TYPE_CHECKING:")[2].partition("__all__")[0]
    for name, home in speciate._HOMES.items():
        (line,) = [line for line in block.splitlines() if f"from speciate.{home} import" in line]
        assert name in line.replace(",", " ").split()


def test_the_version_is_that_of_the_distribution_and_other_names_are_none_of_ours():
    from importlib.metadata import version

    assert speciate.__version__ == version("speciate")
    with pytest.raises(AttributeError, match="no attribute 'Haed'"):
        _ = speciate.Haed


def test_a_star_import_gives_exactly_the_public_names():
    check = "from speciate import *; print(sorted(name for name in dir() if not name.startswith('_')))"
    done = subprocess.run([sys.executable, "-c", check], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == str(speciate.__all__)


@pytest.mark.parametrize("package", ["speciate", "speciate_schemas", "speciate_plugins"])
def test_types_are_for_everybody(package):
    assert (Path(importlib.import_module(package).__file__).parent / "py.typed").is_file()
