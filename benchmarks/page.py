"""What the live page costs the pipeline: events per second with it and 100 listeners, against the same run without.

    python benchmarks/page.py                  pairs of runs, one after the other, and the ratio of each pair
    python benchmarks/page.py --browser        the same with the page open in Chromium as well

Each run is a process of its own, on the same stream, to its end. The two of a pair follow each other and take turns in
going first, so that whatever else the machine does falls on both; the median of the ratios counts. The listeners are a
process of their own: on two processors they take a share of what the pipeline could have had, as real ones elsewhere
would not.
"""

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import engine

HTTP_OK = b"200"


def run(config: Path, port: int | None) -> float:
    """Events per second of one run, from its first read to its last commit; served at a port, if there is one."""
    command = [sys.executable, "-m", "speciate.cli", "run", str(config), "--fresh", "--json"]
    if port is not None:
        command += ["--page-address", f"127.0.0.1:{port}"]
    done = subprocess.run(command, check=True, capture_output=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    return float(json.loads(done.stdout)["events_per_second"])


async def listen(port: int, clients: int) -> None:
    """So many listeners, each from when the page is there until it is gone; what they heard goes to standard output."""
    heard = await asyncio.gather(*(_listener(port) for _ in range(clients)))
    sys.stdout.write(json.dumps(heard))


async def _listener(port: int) -> int:
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            break
        except OSError:
            await asyncio.sleep(0.05)
    writer.write(f"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    with contextlib.suppress(OSError):
        if HTTP_OK not in await reader.readline():
            return -1
        messages = 0
        while chunk := await reader.read(1 << 16):
            messages += chunk.count(b"event: tidings")
        return messages
    return -1


@contextlib.contextmanager
def listening(port: int, clients: int, *, browser: bool) -> Iterator[None]:
    """A process of listeners, and a browser if one is wanted, while the block runs; all must have heard something."""
    command = [sys.executable, __file__, "--listen", str(port), "--clients", str(clients)]
    others = subprocess.Popen(command, stdout=subprocess.PIPE)
    looking = _open_browser(port) if browser else None
    try:
        yield
        heard = json.loads(others.communicate(timeout=30)[0])
    finally:
        others.kill()
        if looking is not None:
            looking.kill()
            looking.wait()
    if min(heard) < 1:
        raise SystemExit(f"{sum(one < 1 for one in heard)} of {clients} listeners heard nothing: this measures nothing")


def _open_browser(port: int) -> "subprocess.Popen[bytes]":
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("there is no chromium to open the page with")
    switches = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking")
    # It comes before the page is there: the first attempt may fail, and a browser does not try again by itself.
    script = f"until curl -s -o /dev/null http://127.0.0.1:{port}/live; do sleep 0.1; done; exec {chromium} "
    arguments = f"{' '.join(switches)} --remote-debugging-port=0 http://127.0.0.1:{port}/"
    return subprocess.Popen(["sh", "-c", script + arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def free_port() -> int:
    """One that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def write_config(directory: Path) -> Path:
    """The pipeline under test, as a file."""
    lines = []
    for section, keys in engine.config_of(directory, "full", "dp").items():
        lines += [f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items())]
    path = directory / "pipeline.toml"
    path.write_text("\n".join(lines))
    return path


def measure(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Pairs of runs."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        engine.write_inputs(directory, events=arguments.events, dimension=64, classes=50)
        config = write_config(directory)
        run(config, None)  # the first reads the files into memory
        for number in range(arguments.pairs):
            rates: dict[str, float] = {}
            for kind in ("without", "with")[:: 1 if number % 2 else -1]:
                if kind == "without":
                    rates[kind] = run(config, None)
                    continue
                port = free_port()
                with listening(port, arguments.clients, browser=arguments.browser):
                    rates[kind] = run(config, port)
            found.append({**rates, "ratio": rates["with"] / rates["without"]})
            sys.stderr.write(f"{rates['without']:,.0f}/s without, {rates['with']:,.0f}/s with\n")
    return found


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--events", type=int, default=30_000)
    parser.add_argument("--browser", action="store_true")
    parser.add_argument("--listen", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.listen is not None:
        asyncio.run(listen(arguments.listen, arguments.clients))
        return
    began = time.perf_counter()
    pairs = measure(arguments)
    ratios = sorted(one["ratio"] for one in pairs)
    sys.stdout.write(
        f"{arguments.clients} listeners{' and a browser' if arguments.browser else ''}: throughput "
        f"{statistics.median(ratios):.3f} of that without (median of {len(ratios)} pairs, "
        f"{ratios[0]:.3f} to {ratios[-1]:.3f}), {time.perf_counter() - began:.0f} s\n"
    )


if __name__ == "__main__":
    main()
