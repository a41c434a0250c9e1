"""The cautious policy obeys the laws of policies, and is cautious."""

import numpy as np
import pytest

from speciate.conformance.policies import check_policy
from speciate.stages import BIRTH, Choice
from speciate_example_plugin.cautious import CautiousOptions, CautiousPolicy

COUNTS = np.array([100, 1])


def decide(policy: CautiousPolicy, log_density: np.ndarray, log_birth: float) -> Choice:
    return policy.choose(*policy.weigh(log_density, COUNTS[: len(log_density)], log_birth))


def test_a_birth_needs_its_lead() -> None:
    policy = CautiousPolicy(CautiousOptions(caution=3.0))
    evidence = np.array([-10.0, -20.0])
    assert decide(policy, evidence, -7.5).category == 0
    assert decide(policy, evidence, -6.5).category == BIRTH


def test_the_size_of_a_category_does_not_count() -> None:
    policy = CautiousPolicy(CautiousOptions())
    assert decide(policy, np.array([-2.0, -1.0]), -5.0).category == 1


def test_the_first_event_of_all_is_a_birth() -> None:
    choice = decide(CautiousPolicy(CautiousOptions()), np.empty(0), -3.0)
    assert choice.category == BIRTH
    assert choice.margin is None
    assert choice.log_evidence == pytest.approx(-3.0)


def test_probabilities_are_those_of_the_evidence() -> None:
    choice = decide(CautiousPolicy(CautiousOptions(caution=0.0)), np.log([0.5, 0.25]), float(np.log(0.25)))
    assert choice.probability == pytest.approx(0.5)
    assert choice.margin == pytest.approx(np.log(2.0))


def test_it_obeys_the_laws_of_policies() -> None:
    check_policy(lambda: CautiousPolicy(CautiousOptions()))
