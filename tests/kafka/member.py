"""A worker in a process of its own that tells, in JSON, one a line, each share of the tasks that it gets.

Run as `python member.py SERVERS GROUP TOPIC SESSION_TIMEOUT_MS`.
"""

import asyncio
import json
import sys

from speciate_plugins.kafka.connection import KafkaConnection
from speciate_plugins.kafka.membership import Membership


async def main(servers: str, group: str, topic: str, session_timeout_ms: str) -> None:
    connection = KafkaConnection(servers=[servers])
    membership = Membership(connection, group=group, topics=[topic], session_timeout_ms=int(session_timeout_ms))
    await membership.join()
    while True:
        sys.stdout.write(json.dumps(sorted(await membership.changed())) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
