"""What a run was done with: versions of what decides, and the machine."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from speciate.plugins import Plugins
from speciate_schemas import Recipe


def versions(recipe: Recipe, plugins: Plugins) -> dict[str, str]:
    """Of Python, the numerical libraries, and the packages of the plugins in use and what they require."""
    encoder = recipe.benchmark_config.encoder
    used = [("density", recipe.method_config.density), ("policy", recipe.method_config.policy)]
    used += [("encoder", encoder)] if encoder else []
    found = {"python": platform.python_version()}
    names = ["numpy", "scipy"]
    for stage, section in used:
        info = plugins.info(stage, section["plugin"])
        found[info.package] = info.version
        names += [module.partition(".")[0] for module in plugins.provider(stage, section["plugin"]).requires]
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return dict(sorted(found.items()))


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
