"""Something that speaks as much of Kafka's protocol as a broker without transactions, and holds nothing.

It tells which requests it knows, which topics there are and how they are set up. That is as far as one gets who wants
to write exactly once.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Self

from aiokafka.protocol.admin import ApiVersionResponse_v0, DescribeConfigsResponse_v1
from aiokafka.protocol.api import Response
from aiokafka.protocol.coordination import FindCoordinatorResponse_v1
from aiokafka.protocol.metadata import MetadataResponse_v5
from aiokafka.protocol.types import Int16, Int32

NODE, TOPIC = 1, 2


class OldBroker:
    """Listens on `servers` until it is left; a context manager."""

    def __init__(self, topics: Sequence[str]) -> None:
        self._topics = topics
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        # InitProducerId, without which there are no transactions, is number 22.
        self._answers: dict[type[Response], Callable[[], Response]] = {
            ApiVersionResponse_v0: self._versions,
            MetadataResponse_v5: self._metadata,
            FindCoordinatorResponse_v1: lambda: FindCoordinatorResponse_v1(0, 0, None, NODE, self._host, self._port),
            DescribeConfigsResponse_v1: self._configs,
        }

    def __enter__(self) -> Self:
        self._thread.start()
        serving = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop)
        self._server = serving.result()
        self._host, self._port = self._server.sockets[0].getsockname()
        self.servers = f"{self._host}:{self._port}"
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests until the client goes, or asks for what is not known here: then it is cut off."""
        try:
            while True:
                request = BytesIO(await reader.readexactly(Int32.decode(BytesIO(await reader.readexactly(4)))))
                key, _, number = Int16.decode(request), Int16.decode(request), Int32.decode(request)
                (answer,) = [make() for kind, make in self._answers.items() if key == kind.API_KEY]
                data = Int32.encode(number) + answer.encode()
                writer.write(Int32.encode(len(data)) + data)
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            pass
        finally:
            writer.close()

    def _versions(self) -> Response:
        return ApiVersionResponse_v0(0, [(kind.API_KEY, kind.API_VERSION, kind.API_VERSION) for kind in self._answers])

    def _metadata(self) -> Response:
        topics = [(0, name, False, [(0, 0, NODE, [NODE], [NODE], [])]) for name in self._topics]
        return MetadataResponse_v5(0, [(NODE, self._host, self._port, None)], "old", NODE, topics)

    def _configs(self) -> Response:
        return DescribeConfigsResponse_v1(0, [(0, None, TOPIC, name, []) for name in self._topics])
