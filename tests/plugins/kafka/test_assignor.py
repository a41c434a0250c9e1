"""Each task has one owner, all have about as many, and nothing moves without need."""

from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speciate_plugins.kafka.assignor import Ready, TaskAssignor, Told, share_out

NUMBERS = st.integers(0, 40)
SOME = st.frozensets(st.integers(0, 45))
MEMBERS = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=3),
    st.builds(Ready, owned=SOME, ready=SOME, round=st.integers(0, 3)),
    min_size=1,
    max_size=9,
)


def settled(count: int, members: list[str]) -> dict[str, set[int]]:
    return share_out(range(count), {member: Ready() for member in members})


def owners(shares: dict[str, set[int]]) -> dict[str, Ready]:
    return {member: Ready(owned=frozenset(share)) for member, share in shares.items()}


def moved(before: dict[str, set[int]], after: dict[str, set[int]]) -> int:
    return sum(len(share - before.get(member, set())) for member, share in after.items())


@given(NUMBERS, MEMBERS)
def test_every_number_has_one_owner_and_shares_are_even(count: int, members: dict[str, Ready]):
    shares = share_out(range(count), members)
    assert set(shares) == set(members)
    assert sorted(number for share in shares.values() for number in share) == list(range(count))
    sizes = [len(share) for share in shares.values()]
    assert max(sizes) - min(sizes) <= 1


@given(NUMBERS, MEMBERS)
def test_the_order_of_members_and_numbers_does_not_matter(count: int, members: dict[str, Ready]):
    assert share_out(range(count)[::-1], dict(reversed(members.items()))) == share_out(range(count), members)


@given(NUMBERS, MEMBERS)
def test_as_much_stays_as_even_shares_allow(count: int, members: dict[str, Ready]):
    taken: set[int] = set()
    for member in sorted(members):  # nobody claims what another one has
        members[member] = Ready(owned=members[member].owned - taken, ready=members[member].ready)
        taken |= members[member].owned
    shares = share_out(range(count), members)
    kept = sum(len(shares[member] & members[member].owned) for member in members)
    had = [len([number for number in claim.owned if number < count]) for claim in members.values()]
    least, extra = divmod(count, len(members))
    assert kept == sum(min(each, least) for each in had) + min(extra, sum(each > least for each in had))


@given(NUMBERS, st.sets(st.text("abc", min_size=1), min_size=1, max_size=9))
def test_a_newcomer_takes_its_share_and_no_more_moves(count: int, members: set[str]):
    before = settled(count, sorted(members))
    after = share_out(range(count), {**owners(before), "newcomer": Ready()})
    assert moved(before, after) == len(after["newcomer"])


@given(NUMBERS, st.sets(st.text("abc", min_size=1), min_size=2, max_size=9))
def test_who_leaves_moves_only_what_was_theirs(count: int, members: set[str]):
    before = settled(count, sorted(members))
    gone = min(members)
    stay = {member: share for member, share in before.items() if member != gone}
    after = share_out(range(count), owners(stay))
    assert all(share <= after[member] for member, share in stay.items())
    assert moved(before, after) == len(before[gone])


@given(NUMBERS, MEMBERS)
def test_nothing_moves_when_nothing_changes(count: int, members: dict[str, Ready]):
    shares = share_out(range(count), members)
    assert share_out(range(count), owners(shares)) == shares


def test_who_has_the_state_at_hand_is_preferred():
    members = {
        "a": Ready(owned=frozenset({0, 1})),
        "b": Ready(owned=frozenset({2, 3})),
        "c": Ready(ready=frozenset({4})),
        "d": Ready(ready=frozenset({5})),
    }
    assert share_out(range(8), members) == {"a": {0, 1}, "b": {2, 3}, "c": {4, 6}, "d": {5, 7}}


def test_what_must_go_is_rather_what_another_one_has_at_hand():
    members = {"a": Ready(owned=frozenset(range(4))), "b": Ready(ready=frozenset({0, 2}))}
    assert share_out(range(4), members) == {"a": {1, 3}, "b": {0, 2}}


def test_a_number_with_one_fan_goes_before_a_number_with_two():
    members = {"a": Ready(ready=frozenset({0, 1})), "b": Ready(ready=frozenset({0}))}
    assert share_out(range(2), members) == {"a": {1}, "b": {0}}


def test_of_two_that_claim_the_same_the_later_one_is_right():
    zombie, owner = Ready(owned=frozenset({0, 1}), round=3), Ready(owned=frozenset({0, 1}), round=4)
    members = {"zombie": zombie, "owner": owner, "x": Ready(owned=frozenset({2, 3}), round=4)}
    shares = share_out(range(4), members)
    assert shares["owner"] >= {0}
    assert shares["owner"] | shares["x"] >= {0, 2}
    assert share_out(range(2), {"zombie": zombie, "owner": owner, "x": Ready()})["zombie"] != {0, 1}
    assert share_out(range(1), {"zombie": zombie, "owner": owner}) == {"owner": {0}, "zombie": set()}


def test_nobody_there_is_nothing_to_share():
    assert share_out(range(3), {}) == {}


class Group:
    """What the coordinator and aiokafka do for the members: carry what they say to the leader and back."""

    def __init__(self, topics: dict[str, int], *, together: bool = False, count: int = 4) -> None:
        self.topics = topics
        self.together = together
        self.count = count
        self.heard: list[Told] = []
        self.failed: list[Exception] = []

    def member(self, claim: Ready) -> TaskAssignor:
        return TaskAssignor(
            count=self.count,
            together=self.together,
            claim=lambda: claim,
            hear=self.heard.append,
            fail=self.failed.append,
        )

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return set(range(self.topics[topic])) if topic in self.topics else None

    def share(self, claims: dict[str, Ready], subscription: list[str]) -> dict[str, dict[str, list[int]]]:
        """As seen by Kafka's tools; the members hear theirs in the order of their names."""
        members = {name: self.member(claim) for name, claim in claims.items()}
        said = {name: member.metadata(subscription) for name, member in members.items()}
        said = {name: type(each).decode(each.encode()) for name, each in said.items()}
        told = next(iter(members.values())).assign(self, said)
        for name in sorted(members):
            members[name].on_assignment(type(told[name]).decode(told[name].encode()))
        return {name: dict(each.assignment) for name, each in told.items()}


def test_members_hear_their_share_and_kafka_sees_the_partitions():
    group = Group({"x": 4, "y": 4})
    shown = group.share({"a": Ready(owned=frozenset({1, 3}), round=7), "b": Ready()}, ["y", "x"])
    assert shown == {"a": {"x": [1, 3], "y": [1, 3]}, "b": {"x": [0, 2], "y": [0, 2]}}
    assert [told.numbers for told in group.heard] == [{1, 3}, {0, 2}]
    assert all(told.round == 8 and told.counts == {"x": 4, "y": 4} for told in group.heard)


def test_together_one_member_has_all_partitions():
    group = Group({"x": 2, "y": 3}, together=True, count=1)
    shown = group.share({"a": Ready(), "b": Ready(owned=frozenset({0}))}, ["x", "y"])
    assert shown == {"a": {}, "b": {"x": [0, 1], "y": [0, 1, 2]}}
    assert [told.numbers for told in group.heard] == [set(), {0}]
    assert group.member(Ready()).name != Group({}).member(Ready()).name


def test_who_reads_something_else_gets_nothing_and_hears_why():
    group = Group({"x": 4})
    group.share({"a": Ready(asked="x"), "b": Ready(asked="y")}, ["x"])
    assert [told.numbers for told in group.heard] == [{0, 1, 2, 3}, set()]
    assert {told.asked for told in group.heard} == {"x"}


def test_a_topic_the_leader_does_not_see_counts_as_empty():
    group = Group({})
    assert group.share({"a": Ready()}, ["x"]) == {"a": {}}
    assert group.heard == [Told(numbers=frozenset(range(4)), round=1, asked="", counts={"x": 0})]


@pytest.mark.parametrize("said", [None, b"", b"\xc1", msgspec.msgpack.encode({"owned": "all"})])
def test_a_member_that_cannot_be_understood_does_not_stop_the_others(said: bytes | None):
    group = Group({"x": 4})
    strange = SimpleNamespace(subscription=["x"], user_data=said)
    leader = group.member(Ready())
    told = leader.assign(group, {"a": leader.metadata(["x"]), "b": strange})
    assert sum(len(dict(each.assignment)["x"]) for each in told.values()) == 4


def test_a_share_that_cannot_be_understood_is_kept_for_whoever_asks():
    group = Group({})
    with pytest.raises(msgspec.DecodeError):
        group.member(Ready()).on_assignment(SimpleNamespace(user_data=b"\xc1"))
    with pytest.raises(AttributeError):
        group.member(Ready()).assign(None, {"a": group.member(Ready()).metadata(["x"])})
    assert [type(error) for error in group.failed] == [msgspec.DecodeError, AttributeError]
