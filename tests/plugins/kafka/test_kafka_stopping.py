"""Whatever a client does, ending it ends."""

import asyncio

import pytest

from speciate_plugins.kafka.stopping import stop_client


class Client:
    """Stands in for a client of aiokafka: `stop` does as it is told, and a task goes on trying."""

    def __init__(self, stop: str) -> None:
        self.how = stop
        self.asked = False
        self.trying = asyncio.create_task(self.try_for_ever())

    async def try_for_ever(self) -> None:
        await asyncio.Event().wait()

    async def stop(self) -> None:
        self.asked = True
        if self.how == "hangs":
            await asyncio.Event().wait()
        if self.how == "fails":
            raise RuntimeError("no")
        self.trying.cancel()


@pytest.mark.parametrize("how", ["works", "hangs", "fails"])
@pytest.mark.parametrize("before", ["works", "hangs", "fails"])
async def test_client_is_told_to_stop_and_leaves_no_task(how: str, before: str):
    async def abort() -> None:
        if before == "hangs":
            await asyncio.Event().wait()
        if before == "fails":
            raise RuntimeError("no")

    client = Client(how)
    async with asyncio.timeout(30):  # it would hang for ever
        await stop_client(client, 0.2, before=abort)
    assert client.asked
    await asyncio.sleep(0)
    assert client.trying.cancelled()
    assert asyncio.all_tasks() == {asyncio.current_task()}
