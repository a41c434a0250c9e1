"""The laws of a policy."""

import math
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from speciate.conformance.expecting import expect, expect_equal
from speciate.head import NEGLIGIBLE_NATS
from speciate.stages import BIRTH, Choice, Policy, Vector

SEED = 11
CASES = 200
MOST_CATEGORIES = 12

Given = tuple[Vector, npt.NDArray[np.int64], float]
Weighed = tuple[Vector, float]


def check_policy(make: Callable[[], Policy]) -> None:
    """Check a policy with densities of all sorts.

    `make` makes a new policy with the same options each time. The laws:

    - It is pure: the same densities give the same choice, from another instance too, and nothing given is changed.
    - The evidence of a category does not fall when its log density grows, and no other evidence changes, nor that of
      a birth; categories in another order have the same evidence, in that order.
    - Without a category the choice is a birth, without a margin.
    - The choice is a category there is or a birth; its probability is within 0 … 1, its margin not negative.
    - Categories in another order: the same one is chosen.
    - More density for what was chosen does not change the choice.
    - Categories 80 nats and more behind the best two, a birth among them, do not show in the choice.
    - A category under which the event is impossible is not chosen while it is possible under another.
    - Of an event that is impossible whichever way, the evidence is minus infinity, so that the engine refuses it.
    """
    policy, other = make(), make()
    for given in _cases():
        weighed = _check_weighing(policy, other, given)
        choice = _check_choosing(policy, other, weighed)
        _check_sane(choice, len(given[1]))
        _check_alone(policy, weighed, given)
        _check_order(policy, choice, weighed, given)
        _check_more(policy, choice, given)
        _check_far_behind(policy, choice, weighed)
    _check_impossible(policy)


def _cases() -> Iterator[Given]:
    """No two categories alike, so that nothing depends on how a policy breaks ties."""
    generator = np.random.default_rng(SEED)
    for case in range(CASES):
        size = case % (MOST_CATEGORIES + 1)
        spread = 10.0 ** generator.uniform(-1, 4)
        counts = generator.permutation(10 * MOST_CATEGORIES)[:size] + 1
        yield generator.normal(-spread, spread, size), counts.astype(np.int64), float(generator.normal(-spread, spread))


def _check_weighing(policy: Policy, other: Policy, given: Given) -> Weighed:
    log_density, counts, _ = given
    before = log_density.tobytes(), counts.tobytes()
    evidence, birth = policy.weigh(*given)
    expect_equal((log_density.tobytes(), counts.tobytes()), before, "a policy must not change what it weighs")
    expect_equal(evidence.shape, counts.shape, "weigh must give one evidence a category")
    law = "the same densities must give the same evidence"
    expect_equal(_bits(policy.weigh(*given)), _bits((evidence, birth)), law)
    expect_equal(_bits(other.weigh(*given)), _bits((evidence, birth)), f"{law} from another instance")
    return evidence, birth


def _check_choosing(policy: Policy, other: Policy, weighed: Weighed) -> Choice:
    before = _bits(weighed)
    choice = policy.choose(*weighed)
    expect_equal(_bits(weighed), before, "a policy must not change the evidence it chooses by")
    expect_equal(policy.choose(*weighed), choice, "the same evidence must give the same choice")
    expect_equal(other.choose(*weighed), choice, "another instance must choose the same")
    return choice


def _check_sane(choice: Choice, size: int) -> None:
    if not size:
        expect_equal((choice.category, choice.margin), (BIRTH, None), "without a category there is only a birth")
    expect(choice.category == BIRTH or 0 <= choice.category < size, f"there is no category {choice.category} of {size}")
    expect(math.isfinite(choice.log_evidence), f"finite evidence must stay finite, it became {choice.log_evidence}")
    expect(0.0 <= choice.probability <= 1.0, f"a probability is within 0 … 1, not {choice.probability}")
    expect(choice.margin is None or choice.margin >= 0.0, f"a margin is not negative, it was {choice.margin}")


def _check_alone(policy: Policy, weighed: Weighed, given: Given) -> None:
    """The evidence of a category depends on the density of no other, and grows with its own."""
    log_density, counts, log_birth = given
    for place in range(len(counts)):
        raised = log_density.copy()
        raised[place] += 1.0
        evidence, birth = policy.weigh(raised, counts, log_birth)
        law = f"the evidence of category {place} must not fall when its log density grows"
        expect(bool(evidence[place] >= weighed[0][place]), law)
        others = np.arange(len(counts)) != place
        law = f"the log density of category {place} must not change the evidence of anything else"
        expect_equal(_bits((evidence[others], birth)), _bits((weighed[0][others], weighed[1])), law)


def _check_order(policy: Policy, choice: Choice, weighed: Weighed, given: Given) -> None:
    log_density, counts, log_birth = given
    order = np.random.default_rng(len(counts)).permutation(len(counts))
    moved = policy.weigh(log_density[order], counts[order], log_birth)
    law = "categories in another order must have the same evidence, in that order"
    expect_equal(_bits(moved), _bits((weighed[0][order], weighed[1])), law)
    chosen = policy.choose(*moved)
    was = BIRTH if chosen.category == BIRTH else int(order[chosen.category])
    law = "categories in another order must not change which one is chosen"
    expect_equal((was, chosen.log_evidence), (choice.category, choice.log_evidence), law)


def _check_more(policy: Policy, choice: Choice, given: Given) -> None:
    log_density, counts, log_birth = given
    raised = log_density.copy()
    if choice.category == BIRTH:
        log_birth += 1.0
    else:
        raised[choice.category] += 1.0
    again = policy.choose(*policy.weigh(raised, counts, log_birth)).category
    expect_equal(again, choice.category, "more density for what was chosen must not change the choice")


def _check_far_behind(policy: Policy, choice: Choice, weighed: Weighed) -> None:
    """The head scores exactly only what can show: a policy must not look at the rest."""
    evidence, birth = weighed
    ranked = np.sort(evidence)
    if len(ranked) < 3:  # noqa: PLR2004  # the best, the runner-up, and one behind them
        return
    cutoff = min(max(ranked[-1], birth) - NEGLIGIBLE_NATS, ranked[-2])
    lowered = np.where(evidence < cutoff, evidence - 1.0, evidence)
    law = f"categories {NEGLIGIBLE_NATS} nats behind must not show in the choice"
    expect_equal(policy.choose(lowered, birth), choice, law)


def _check_impossible(policy: Policy) -> None:
    counts = np.array([1000, 3, 1], dtype=np.int64)
    for possible in range(len(counts)):
        log_density = np.full(len(counts), -np.inf)
        log_density[possible] = -5.0
        chosen = policy.choose(*policy.weigh(log_density, counts, -math.inf)).category
        expect_equal(chosen, possible, "the only category under which an event is possible must be chosen")
    nowhere = policy.choose(*policy.weigh(np.full(len(counts), -np.inf), counts, -math.inf))
    expect_equal(nowhere.log_evidence, -math.inf, "of an event that is impossible the evidence must be -inf")
    expect(0.0 <= nowhere.probability <= 1.0, f"a probability is within 0 … 1, not {nowhere.probability}")


def _bits(weighed: Weighed) -> tuple[bytes, float]:
    return np.ascontiguousarray(weighed[0]).tobytes(), weighed[1]
