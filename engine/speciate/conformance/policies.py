"""The laws of a policy."""

import math
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from speciate.conformance.expecting import expect, expect_equal
from speciate.stages import BIRTH, Choice, Policy, Vector

SEED = 11
CASES = 200
MOST_CATEGORIES = 12

Evidence = tuple[Vector, npt.NDArray[np.int64], float]


def check_policy(make: Callable[[], Policy]) -> None:
    """Check a policy with evidence of all sorts.

    `make` makes a new policy with the same options each time. The laws:

    - It is pure: the same evidence gives the same choice, from another instance too, and is not changed.
    - Without a category the choice is a birth, without a margin.
    - The choice is a category there is or a birth; its probability is within 0 … 1, its margin not negative.
    - Categories in another order: the same one is chosen.
    - More evidence for what was chosen does not change the choice.
    - A category under which the event is impossible is not chosen while it is possible under another.
    - Of an event that is impossible whichever way, the evidence is minus infinity, so that the engine refuses it.
    """
    policy, other = make(), make()
    for evidence in _cases():
        choice = _check_pure(policy, other, evidence)
        _check_sane(choice, evidence)
        _check_order(policy, choice, evidence)
        _check_more(policy, choice, evidence)
    _check_impossible(policy)


def _cases() -> Iterator[Evidence]:
    """No two categories alike, so that nothing depends on how a policy breaks ties."""
    generator = np.random.default_rng(SEED)
    for case in range(CASES):
        size = case % (MOST_CATEGORIES + 1)
        spread = 10.0 ** generator.uniform(-1, 4)
        counts = generator.permutation(10 * MOST_CATEGORIES)[:size] + 1
        yield generator.normal(-spread, spread, size), counts.astype(np.int64), float(generator.normal(-spread, spread))


def _check_pure(policy: Policy, other: Policy, evidence: Evidence) -> Choice:
    log_density, counts, log_birth = evidence
    before = log_density.tobytes(), counts.tobytes()
    choice = policy.choose(log_density, counts, log_birth)
    expect_equal((log_density.tobytes(), counts.tobytes()), before, "a policy must not change what it is given")
    expect_equal(policy.choose(*evidence), choice, "the same evidence must give the same choice")
    expect_equal(other.choose(*evidence), choice, "another instance must choose the same")
    return choice


def _check_sane(choice: Choice, evidence: Evidence) -> None:
    size = len(evidence[1])
    if not size:
        expect_equal((choice.category, choice.margin), (BIRTH, None), "without a category there is only a birth")
    expect(choice.category == BIRTH or 0 <= choice.category < size, f"there is no category {choice.category} of {size}")
    expect(math.isfinite(choice.log_evidence), f"finite evidence must stay finite, it became {choice.log_evidence}")
    expect(0.0 <= choice.probability <= 1.0, f"a probability is within 0 … 1, not {choice.probability}")
    expect(choice.margin is None or choice.margin >= 0.0, f"a margin is not negative, it was {choice.margin}")


def _check_order(policy: Policy, choice: Choice, evidence: Evidence) -> None:
    log_density, counts, log_birth = evidence
    order = np.random.default_rng(len(counts)).permutation(len(counts))
    moved = policy.choose(log_density[order], counts[order], log_birth)
    was = BIRTH if moved.category == BIRTH else int(order[moved.category])
    expect_equal(was, choice.category, "categories in another order must not change which one is chosen")


def _check_more(policy: Policy, choice: Choice, evidence: Evidence) -> None:
    log_density, counts, log_birth = evidence
    raised = log_density.copy()
    if choice.category == BIRTH:
        log_birth += 1.0
    else:
        raised[choice.category] += 1.0
    again = policy.choose(raised, counts, log_birth).category
    expect_equal(again, choice.category, "more evidence for what was chosen must not change the choice")


def _check_impossible(policy: Policy) -> None:
    counts = np.array([1000, 3, 1], dtype=np.int64)
    for possible in range(len(counts)):
        log_density = np.full(len(counts), -np.inf)
        log_density[possible] = -5.0
        chosen = policy.choose(log_density, counts, -math.inf).category
        expect_equal(chosen, possible, "the only category under which an event is possible must be chosen")
    nowhere = policy.choose(np.full(len(counts), -np.inf), counts, -math.inf)
    expect_equal(nowhere.log_evidence, -math.inf, "of an event that is impossible the evidence must be -inf")
    expect(0.0 <= nowhere.probability <= 1.0, f"a probability is within 0 … 1, not {nowhere.probability}")
