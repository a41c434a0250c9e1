"""DP-BOA the slow way: every event kept, posteriors from the raw points, SciPy's Student t. Float64 throughout.

After the paper: NIW posterior by appendix C, predictive densities by equations 4 and 5, decision rule by section 3.4.
Only the prior is taken from the head under test.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_t

from speciate_schemas import Array


class Verdict(NamedTuple):
    category: int
    birth: bool
    log_evidence: float
    margin: float | None
    probability: float
    drift: float | None


class Oracle:
    """Categories as lists of points."""

    def __init__(
        self,
        shared: dict[str, Array],
        features: np.ndarray,
        classes: np.ndarray,
        *,
        alpha: float = 1e-9,
        frozen: bool = False,
    ) -> None:
        self.mean = shared["mean"].numpy()
        root = np.linalg.inv(shared["whiten"].numpy())
        self.scale = root @ root.T
        self.kappa, self.strength = float(shared["kappa0"].numpy()), float(shared["n0"].numpy())
        self.degrees = self.strength + len(self.mean) + 1
        self.alpha, self.frozen = alpha, frozen
        self.members = [list(features[classes == k]) for k in range(classes.max() + 1)]
        self.counts = [len(members) for members in self.members]
        self.predictives = [self.predictive(members) for members in self.members]
        self.birth = self.predictive([])

    def posterior(self, members: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, float, float]:
        """Appendix C: mean, scale, kappa and degrees of freedom given all points of a category."""
        count = len(members)
        if not count:
            return self.mean, self.scale, self.kappa, self.degrees
        points = np.array(members)
        average = points.mean(axis=0)
        scatter = (points - average).T @ (points - average)
        kappa = self.kappa + count
        away = average - self.mean
        mean = (self.kappa * self.mean + count * average) / kappa
        scale = self.scale + scatter + self.kappa * count / kappa * np.outer(away, away)
        return mean, scale, kappa, self.degrees + count

    def predictive(self, members: list[np.ndarray]) -> Any:
        mean, scale, kappa, degrees = self.posterior(members)
        free = degrees - len(mean) + 1
        return multivariate_t(mean, (kappa + 1) / (kappa * free) * scale, free)

    def spread(self, members: list[np.ndarray], *, round_: bool = False) -> float:
        """Root mean square deviation in those within a class: along all directions, or in balls of the same traces."""
        widths = self.posterior(members)[1] / (self.strength + len(members))
        within = self.scale / self.strength
        if round_:
            return math.sqrt(np.trace(widths) / np.trace(within))
        return math.sqrt(np.trace(np.linalg.solve(within, widths)) / len(within))

    def score(self, event: np.ndarray) -> list[float]:
        return [float(one.logpdf(event)) for one in self.predictives]

    def step(self, event: np.ndarray) -> Verdict:
        """Decide an event and keep it."""
        total = math.log(sum(self.counts) + self.alpha)
        evidence = [math.log(n) + s - total for n, s in zip(self.counts, self.score(event), strict=True)]
        birth = math.log(self.alpha) + float(self.birth.logpdf(event)) - total
        everything = [*evidence, birth]
        first = max(range(len(everything)), key=everything.__getitem__)
        born = first == len(evidence)
        if born:
            self.members.append([])
            self.counts.append(0)
            self.predictives.append(None)
        self.counts[first] += 1
        before = list(self.members[first])
        if born or not self.frozen:
            self.learn(first, event)
        drift = None if born else self.moved(before, self.members[first])
        top = everything.pop(first)
        margin = top - max(everything) if everything else None
        return Verdict(first, born, top, margin, math.exp(top - logsumexp([top, *everything])), drift)

    def moved(self, before: list[np.ndarray], after: list[np.ndarray]) -> float:
        """How far the posterior mean moved, in standard deviations within a class: the prior's scale is n0 of them."""
        step = self.posterior(after)[0] - self.posterior(before)[0]
        return math.sqrt(step @ np.linalg.solve(self.scale / self.strength, step))

    def learn(self, category: int, event: np.ndarray) -> None:
        self.members[category].append(event)
        self.predictives[category] = self.predictive(self.members[category])
