"""Running a pipeline from the command line: watched, stoppable, and reported on."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import AsyncExitStack

import click

from speciate.cli.progress import watching
from speciate.cli.signals import stopping_on_signals
from speciate.config import Resolved
from speciate.logs import configure
from speciate.pipeline import Pipeline
from speciate.report import Report
from speciate.tracing import traced


def run_watched(resolved: Resolved, *, fresh: bool, page: str | None = None, title: str = "") -> Report:
    """Run to the end of the source, or until a signal; with a page of this title at this address, if there is one."""
    return asyncio.run(_run(resolved, fresh=fresh, page=page, title=title))


async def _run(resolved: Resolved, *, fresh: bool, page: str | None, title: str) -> Report:
    pipeline = Pipeline(resolved, fresh=fresh)
    with stopping_on_signals(pipeline.stop):
        async with AsyncExitStack() as stack:
            stack.enter_context(traced())
            if page is not None:
                await _open_page(pipeline, page, title, stack)
            await stack.enter_async_context(watching(pipeline))
            configure()  # here, so that a bar puts the lines above itself
            return await pipeline.run()


async def _open_page(pipeline: Pipeline, address: str, title: str, stack: AsyncExitStack) -> None:
    from speciate.page import serving

    token = os.environ.get("SPECIATE_PAGE_TOKEN")
    url = await stack.enter_async_context(serving(pipeline, address, token, title=title))
    click.echo(f"speciate: page at {url}", err=True)


def print_report(report: Report) -> None:
    """The end of a run, for people, on standard error: standard output may be the sink."""
    for line in _lines(report):
        click.echo(line, err=True)


def _lines(report: Report) -> Iterator[str]:
    status, tally = report.status, report.status.tally
    ended = "stopped" if report.stopped else "done"
    resumed = f", resumed at record {report.resumed_at:,}" if report.resumed_at else ""
    rate = f"{status.answered:,} events answered in {status.seconds:.2f} s ({status.events_per_second:,.0f}/s)"
    yield f"{ended}: {rate}{resumed}"
    counts = {name: getattr(tally, name) for name in tally.__struct_fields__}
    yield "in all: " + ", ".join(f"{count:,} {name}" for name, count in counts.items())
    yield f"categories: {status.categories:,}, {status.head_bytes / 1024:,.0f} KiB"
    p50, p99 = report.latency_p50 * 1e3, report.latency_p99 * 1e3
    yield f"latency: p50 {p50:.1f} ms, p99 {p99:.1f} ms from reading an event to writing its answer"
    for name, spent in status.stages.items():
        if spent.busy or spent.idle:
            waiting = f"idle {spent.idle:6.2f} s, backpressured {spent.backpressured:6.2f} s"
            yield f"{name + ':':<9}busy {spent.busy:6.2f} s, {waiting}"
    # What hands events on has neither of the last two.
    places = {"answers": report.answers, "dead letters": report.dead_letters, "state": report.state}
    yield ", ".join(f"{name} in {place}" for name, place in places.items() if place)
