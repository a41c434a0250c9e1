"""Who of a group works on which task: worked out by one of the members, told to all by the group's coordinator.

Kafka asks each member what it has to say for itself, has the group's leader (a member) share out the work, and hands
every member its part. What they say rides along as MessagePack in the field Kafka keeps for that.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import msgspec

NONE: frozenset[int] = frozenset()


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """What a member says when it joins."""

    owned: frozenset[int] = NONE
    """Tasks it believes to be its own."""
    ready: frozenset[int] = NONE
    """Tasks whose state it has at hand."""
    round: int = 0
    """When it came to own them: of two that claim the same task, the later one is right."""
    asked: str = ""
    """What it was configured to read: members that read something else cannot share with us."""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a member is told when the work was shared out."""

    numbers: frozenset[int]
    """Its tasks."""
    round: int
    """Number of this sharing; grows."""
    asked: str
    """What the leader was configured to read."""
    counts: dict[str, int]
    """How many partitions the leader sees each topic to have."""


def share_out(numbers: Collection[int], members: Mapping[str, Ready]) -> dict[str, set[int]]:
    """Each number to one member, in shares whose sizes differ by at most one.

    Nobody loses more than balance demands; what is to be had goes to those who have its state at hand, then to those
    who have least. The same members get the same shares, in whatever order they are given.
    """
    shares: dict[str, set[int]] = {member: set() for member in sorted(members)}
    if not shares:
        return shares
    least, extra = divmod(len(numbers), len(shares))
    claims = _claims(numbers, members)
    fans = {number: [member for member in shares if number in members[member].ready] for number in numbers}
    # Those who own more than the least come first, for as long as some may have one more than that.
    for member in sorted(shares, key=lambda member: (-len(claims[member]), member)):
        # If some must go, then rather those that somebody else has at hand.
        wanted = sorted((any(fan != member for fan in fans[number]), number) for number in claims[member])
        shares[member].update(number for _, number in wanted[: least + (extra > 0)])
        extra -= len(shares[member]) > least
    places = _Places(shares, least, extra)
    left = set(numbers).difference(*shares.values())
    # A number with few fans chooses first. What finds no room with any of them is dealt out at the end.
    for number in sorted(left, key=lambda number: (len(fans[number]), number)):
        if places.give(number, fans[number]):
            left.remove(number)
    for number in sorted(left):
        places.give(number, shares)
    return shares


def _claims(numbers: Collection[int], members: Mapping[str, Ready]) -> dict[str, set[int]]:
    """What each member owns, each number once: the latest claim holds."""
    owners: dict[int, str] = {}
    for member in sorted(members, key=lambda member: (members[member].round, member)):
        owners |= dict.fromkeys(members[member].owned.intersection(numbers), member)
    claims: dict[str, set[int]] = {member: set() for member in members}
    for number, member in owners.items():
        claims[member].add(number)
    return claims


class _Places:
    """The room that is left in the shares: up to `least` in each, and one more in `extra` of them."""

    def __init__(self, shares: dict[str, set[int]], least: int, extra: int) -> None:
        self._shares, self._least, self._extra = shares, least, extra

    def give(self, number: int, candidates: Iterable[str]) -> bool:
        """Give the number to the candidate that has least, if one has room."""
        room = self._least + (self._extra > 0)
        open_to = [member for member in candidates if len(self._shares[member]) < room]
        if not open_to:
            return False
        share = self._shares[min(open_to, key=lambda member: (len(self._shares[member]), member))]
        share.add(number)
        self._extra -= len(share) > self._least
        return True


class TaskAssignor:
    """What aiokafka's group consumer asks about assignments; one for each consumer, as it speaks for a member.

    `together` makes all partitions of all topics one task, of number 0. It has another name, so that Kafka keeps
    workers that share and workers that do not from meeting in one group.
    """

    def __init__(
        self,
        *,
        count: int,
        together: bool,
        claim: Callable[[], Ready],
        hear: Callable[[Told], None],
        fail: Callable[[Exception], None],
    ) -> None:
        self.name = "speciate-together" if together else "speciate-tasks"
        self._count = count
        self._together = together
        self._claim = claim
        self._hear = hear
        self._fail = fail

    def metadata(self, topics: Iterable[str]) -> Any:
        """What we say when we join."""
        from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata  # noqa: PLC0415 - an extra

        return ConsumerProtocolMemberMetadata(0, sorted(topics), msgspec.msgpack.encode(self._claim()))

    def assign(self, cluster: Any, members: Mapping[str, Any]) -> dict[str, Any]:
        """As the group's leader, share out: `members` have the `subscription` and `user_data` of their metadata."""
        try:
            return self._assign(cluster, members)
        except Exception as error:
            # aiokafka keeps only its text.
            self._fail(error)
            raise

    def on_assignment(self, assignment: Any) -> None:
        """Our share, as the leader put it into `user_data`."""
        try:
            self._hear(msgspec.msgpack.decode(assignment.user_data, type=Told))
        except Exception as error:
            self._fail(error)
            raise

    def _assign(self, cluster: Any, members: Mapping[str, Any]) -> dict[str, Any]:
        from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment  # noqa: PLC0415 - an extra

        said = {member: _understood(metadata.user_data) for member, metadata in members.items()}
        asked = self._claim().asked
        # Whoever reads something else gets nothing, and sees why by what we say that we read.
        peers = {member: claim for member, claim in said.items() if claim.asked == asked}
        shares = share_out(range(self._count), peers)
        topics = sorted({topic for member in peers for topic in members[member].subscription})
        partitions = {topic: cluster.partitions_for_topic(topic) or set() for topic in topics}
        counts = {topic: len(found) for topic, found in partitions.items()}
        following = 1 + max(claim.round for claim in said.values())
        assignments = {}
        for member, metadata in members.items():
            numbers = frozenset(shares.get(member, ()))
            told = Told(numbers=numbers, round=following, asked=asked, counts=counts)
            # The partitions themselves only show in Kafka's tools who has what.
            shown = {
                topic: sorted(found if self._together and numbers else found & numbers)
                for topic, found in partitions.items()
                if topic in metadata.subscription
            }
            assignments[member] = ConsumerProtocolMemberAssignment(
                0, [(topic, found) for topic, found in shown.items() if found], msgspec.msgpack.encode(told)
            )
        return assignments


def _understood(said: bytes | None) -> Ready:
    """A member that we do not understand, such as one of a later version, owns nothing that we know of."""
    try:
        return msgspec.msgpack.decode(said or b"", type=Ready)
    except msgspec.MsgspecError:
        return Ready()
