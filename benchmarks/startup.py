"""How long `speciate --help` takes, beside a bare interpreter: best of several, because other work only adds time."""

import subprocess
import sys
import time

ROUNDS = 10
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "speciate --help": [sys.executable, "-m", "speciate.cli", "--help"],
    "import speciate": [sys.executable, "-c", "import speciate"],
    "speciate.Head": [sys.executable, "-c", "import speciate; speciate.Head"],
}


def best(command: list[str]) -> float:
    """Milliseconds of the fastest round."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def main() -> None:
    """Print each command's time and its ratio to the interpreter's own."""
    bare = best(COMMANDS["python -c pass"])
    for name, command in COMMANDS.items():
        took = best(command)
        print(f"{name:<16} {took:7.1f} ms   {took / bare:5.2f} × the bare interpreter")


if __name__ == "__main__":
    main()
