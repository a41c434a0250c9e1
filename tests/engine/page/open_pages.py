"""Pages for tests: of a pipeline that runs on a thread of its own, and of the state that it left behind."""

import asyncio
import io
import threading
import time

import httpx
import msgspec
import numpy as np
from standing_pages import at_no_cost
from worlds import json_lines, make_pipeline, make_tree, with_trouble

from speciate.page import api, asking, budget, live, overview, protocol, serving, showing, suggestions
from speciate.page.stopped import Stopped, StoppedTask
from speciate.snapshot import newest_whole
from speciate_schemas import ImageEvent

PATIENCE = 30.0
WAITS = (
    (api, "ANSWER_SECONDS"),
    (api, "CHECK_SECONDS"),
    *((one, "PATIENCE_SECONDS") for one in (asking, budget, live, overview, protocol, suggestions)),
)


def be_patient(patch):
    """However slow the machine is, all that is asked of a page is waited for. What a test sets itself holds."""
    for module, name in WAITS:
        patch.setattr(module, name, PATIENCE)


class RunningPage:
    """A pipeline that follows its input, its page, and a client of that."""

    def __init__(self, tree, token=None):
        self.tree = tree
        self._token = token
        self._ready = threading.Event()
        self._failure = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        async def main():
            self.loop, self.pipeline = asyncio.get_running_loop(), make_pipeline(self.tree)
            opening = at_no_cost(serving(self.pipeline, "127.0.0.1:0", self._token, title="a test"))
            async with opening as self.url:
                running = asyncio.create_task(self.pipeline.run())
                self._ready.set()
                await running

        try:
            asyncio.run(main())
        except BaseException as error:
            self._failure = error
            raise
        finally:
            self._ready.set()

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(PATIENCE)
        assert self._failure is None, self._failure
        self.client = httpx.Client(base_url=self.url, trust_env=False, timeout=2 * PATIENCE)
        return self

    def __exit__(self, *_):
        self.client.close()
        self.loop.call_soon_threadsafe(self.pipeline.stop)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def until(self, condition):
        """Wait for something that the pipeline brings about."""
        deadline = time.monotonic() + PATIENCE
        while not (found := condition()):
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.02)
        return found

    def answered(self, count):
        """Wait until so many inputs are answered, by what the page says."""
        return self.until(lambda: (one := self.client.get("/api/state").json()).get("answered", 0) >= count and one)

    def refused(self, reason):
        return self.pipeline.instruments().value("speciate_page_refusals_total", reason).value


class ShownPage:
    """The page of a state, on a thread of its own, and a client of it."""

    def __init__(self, stopped):
        self.stopped = stopped
        self._ready, self._done = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        async def main():
            async with at_no_cost(showing(self.stopped, "127.0.0.1:0")) as self.url:
                self._ready.set()
                await asyncio.to_thread(self._done.wait)

        asyncio.run(main())

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(PATIENCE)
        self.client = httpx.Client(base_url=self.url, trust_env=False, timeout=2 * PATIENCE)
        return self

    def __exit__(self, *_):
        self.client.close()
        self._done.set()
        self._thread.join(PATIENCE)


def told(page, path, struct, status=200, **parameters):
    """An answer, decoded as nothing but this."""
    answer = page.client.get(path, params=parameters or None)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    return msgspec.json.decode(answer.content, type=struct, strict=True)


def image(number, shade):
    """A photograph of nothing, told apart by its shade."""
    from PIL import Image

    rng = np.random.default_rng(number)
    pixels = np.clip(shade + rng.normal(scale=9, size=(8, 8)), 0, 255).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return ImageEvent(id=f"i{number}", image=memoryview(buffer.getvalue()), label=str(shade))


def feature_tree(folder, count=120, **changes):
    """Features with bad inputs and control events strewn in, in two streams of which each may have its own head."""
    return make_tree(folder, with_trouble(count), source={"follow": True}, density={"plugin": "full"}, **changes)


def image_tree(folder, count=24):
    """Images, of which some have pictures."""
    known = [image(number, (40, 200)[number % 2]) for number in range(8)]
    (folder / "known.jsonl").write_bytes(json_lines(known))
    return make_tree(
        folder,
        [image(100 + number, (40, 200, 120)[number % 3]) for number in range(count)],
        source={"follow": True},
        support={"plugin": "jsonl", "paths": [str(folder / "known.jsonl")]},
        encoder={"plugin": "thumbnail"},
    )


def stopped_of(tree, seat=None):
    """What is left of a pipeline."""
    from speciate.config import parse, resolve
    from speciate.plugins import installed

    store = resolve(parse(tree), installed())["store"].create(seat)
    return Stopped("a test", [StoppedTask(0, newest_whole(store))])
