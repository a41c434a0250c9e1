"""How a run of all tests is spread over the processors."""

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Of workers that share the processors with all that the others start, the seconds of an example tell nothing.
settings.register_profile("workers", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("workers")

MOST = 4
TOGETHER = {"tests/kafka/": "kafka", "tests/examples/": "fresh", "tests/test_readme.py": "fresh"}
"""Files that share something dear, one broker or one environment, are for one worker. Those of Kafka mostly wait."""
FIRST = (*TOGETHER, "tests/plugins/test_photographs.py", "tests/test_quality.py", "tests/crash/")
"""What takes long in one piece is begun first: none of it is left when the other workers are done."""


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """A run of everything has a worker a processor; whoever names files, or says `-n`, has what they say."""
    option = config.option
    everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not hasattr(config, "workerinput")
    if getattr(option, "numprocesses", 0) is not None or not everything or option.usepdb or option.collectonly:
        return
    option.numprocesses = min(len(os.sched_getaffinity(0)), MOST)
    option.dist, option.loadscopereorder = "loadfile", False
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # each worker has one processor


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """By file, and some files together."""
    from xdist.scheduler import LoadFileScheduling

    class Together(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file, _, _ = nodeid.partition("::")
            return next((name for path, name in TOGETHER.items() if file.startswith(path)), file)

    return Together(config, log) if config.option.dist == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order of the files is the order in which workers take them."""
    items.sort(key=lambda item: next((n for n, path in enumerate(FIRST) if item.nodeid.startswith(path)), len(FIRST)))
