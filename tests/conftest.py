"""What tests share."""

import shutil
import time

import pytest

from fresh import NOT_COPIED, REPOSITORY, FreshEnvironment, make_environment

pytest_plugins = ["browser", "workers"]


@pytest.fixture(scope="session")
def fresh_environment(tmp_path_factory: pytest.TempPathFactory) -> FreshEnvironment:
    """Built from a copy of the tree, so that neither build artefacts nor the editable install can help."""
    folder = tmp_path_factory.mktemp("fresh")
    shutil.copytree(REPOSITORY, folder / "tree", ignore=NOT_COPIED)
    make_environment(folder / "core")
    began = time.monotonic()
    FreshEnvironment(folder / "core", 0.0).install(folder / "tree")
    return FreshEnvironment(folder / "core", time.monotonic() - began)
