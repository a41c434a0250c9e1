"""What something was made with: versions of what decides, and the machine."""

import os
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path

from speciate.plugins import Plugins


def versions(used: Iterable[tuple[str, str]], plugins: Plugins) -> dict[str, str]:
    """Of Python, the numerical libraries, and the packages of the plugins (stage, name) and what they require."""
    found = {"python": platform.python_version()}
    names = ["numpy", "scipy"]
    for stage, name in used:
        info = plugins.info(stage, name)
        found[info.package] = info.version
        names += [module.partition(".")[0] for module in plugins.provider(stage, name).requires]
    for name in names:
        found[name] = _version(name)
    return dict(sorted(found.items()))


def _version(module: str) -> str:
    """Of the package that a module comes from; most are called alike."""
    try:
        return version(module)
    except PackageNotFoundError:
        packages = packages_distributions().get(module)
        return version(packages[0]) if packages else "unknown"


def hardware() -> dict[str, str]:
    """The machine, as far as it tells."""
    found = {"machine": platform.machine(), "system": platform.system(), "cpus": str(os.cpu_count())}
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                found["cpu"] = line.partition(":")[2].strip()
                break
        found["memory"] = f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9:.0f} GB"
    except (OSError, ValueError):
        pass
    return found
