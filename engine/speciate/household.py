"""What all tasks of a process have in common: the configuration, the encoder, and the head a new task begins with."""

import asyncio
import time
from functools import cached_property

from speciate.audience import Audience
from speciate.chronicle import Album
from speciate.config import Resolved
from speciate.encoding import OneAtATime, picturer
from speciate.exemplars import Pictures
from speciate.head import Head
from speciate.instruments import Instruments
from speciate.outcomes import Locate
from speciate.plugins import Plugins
from speciate.stages import Encoder
from speciate.support import read_support
from speciate.task import Task
from speciate.threads import in_thread
from speciate.universe import Universe
from speciate_schemas import HeadState, Tally, TaskState


class Household:
    """Makes tasks, and keeps what is too dear to be made for each of them."""

    def __init__(self, resolved: Resolved, plugins: Plugins) -> None:
        self.resolved = resolved
        self._plugins = plugins
        self.encoder: Encoder | None = (
            OneAtATime(resolved["encoder"].create()) if "encoder" in resolved.sections else None
        )
        self.instruments = Instruments()
        self.audience: Audience | None = None
        """Who is told of the answers, if there is somebody."""
        self._loaded = False
        self._fitting = asyncio.Lock()
        self._fitted: HeadState | None = None

    @cached_property
    def _album(self) -> Album:
        """How chronicles are kept, with pictures if the encoder can make them."""
        options = self.resolved.config.album
        picture = picturer(self.encoder, options.pixels)
        return Album(options, Pictures(picture) if picture is not None else None)

    def close(self) -> None:
        """Nothing more is learnt here."""
        if self._album.pictures is not None:
            self._album.pictures.close()

    async def load_encoder(self) -> None:
        """Have the encoder ready, if there is one: what is wrong with it is told before anything is read."""
        if self.encoder is None:
            return
        began = time.perf_counter()
        await in_thread(None, self.encoder.load)
        if not self._loaded:
            self._loaded = True
            self.instruments.set("speciate_encoder_load_seconds", time.perf_counter() - began)
        if self.resolved.bundle is not None:
            self.resolved.bundle.check_encoder(self.encoder)

    async def fitted(self) -> HeadState:
        """The state of a head fitted to the support set; it is fitted once, however many tasks begin."""
        async with self._fitting:
            if self._fitted is None and self.resolved.bundle is not None:
                self._fitted = await in_thread(None, self.resolved.bundle.head_state)
            if self._fitted is None:
                features, labels = await read_support(self.resolved["support"].create(), self.encoder)
                head = Head(self.resolved["density"], self.resolved["policy"])
                await in_thread(None, head.calibrate, features, labels)
                self._fitted = await in_thread(None, head.state)
            return self._fitted

    async def new_task(self, locate: Locate) -> Task:
        """A task that has seen nothing yet."""
        await self.load_encoder()
        head, run = await self.fitted(), self.resolved.config.run
        per_stream = run.universe == "stream"
        universe = await in_thread(None, Universe.from_state, head, {}, per_stream=per_stream, plugins=self._plugins)
        return Task(universe, duplicate_window=run.duplicate_window, locate=locate, album=self._album)

    async def restored_task(self, state: TaskState, tally: Tally, locate: Locate) -> Task:
        """A task that goes on where the state was taken."""
        await self.load_encoder()
        run = self.resolved.config.run
        return await in_thread(
            None,
            Task.from_state,
            state,
            plugins=self._plugins,
            per_stream=run.universe == "stream",
            duplicate_window=run.duplicate_window,
            locate=locate,
            tally=tally,
            album=self._album,
        )
