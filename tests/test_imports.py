"""Who may know whom: the schemas know nobody, the engine knows no plugin, and importing it is light."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
ROOTS = {"speciate_schemas": "schemas", "speciate": "engine", "speciate_plugins": "plugins"}
MAY_IMPORT = {
    "speciate_schemas": {"speciate_schemas"},
    "speciate": {"speciate", "speciate_schemas"},
    "speciate_plugins": {"speciate", "speciate_schemas", "speciate_plugins"},
}


def modules(package: str) -> list[Path]:
    return sorted((REPOSITORY / ROOTS[package] / package).rglob("*.py"))


def imported(tree: ast.AST) -> Iterator[str]:
    """The top-level packages a module imports, wherever in it the import stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are written in full, so that this test can read them"
            yield (node.module or "").partition(".")[0]


@pytest.mark.parametrize("package", ROOTS)
def test_packages_import_only_what_lies_below_them(package: str) -> None:
    paths = modules(package)
    assert paths
    for path in paths:
        ours = set(imported(ast.parse(path.read_text()))) & set(ROOTS)
        assert ours <= MAY_IMPORT[package], path


def test_the_engine_never_names_a_plugin_package() -> None:
    """Not even as text to import later: built-ins come in through their entry points alone."""
    for path in modules("speciate"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert "speciate_plugins" not in node.value, f"{path}:{node.lineno}"


@pytest.mark.parametrize("heavy", ["numpy", "scipy", "rich", "pyarrow", "torch"])
def test_importing_the_engine_is_light(heavy: str) -> None:
    """`speciate --help` and a library user who wants one error class should not wait for BLAS."""
    check = f"import speciate, sys; sys.exit({heavy!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"import speciate imports {heavy} {done.stderr}"
