"""Sequential tests that may be looked at after every observation (CN-15).

Each figure has an e-detector in the form of Shiryaev and Roberts (Shin, Ramdas and Rinaldo, *E-detectors: a
nonparametric framework for sequential change detection*, arXiv 2203.03532). With every observation its evidence M
becomes ``(M + 1) * factor``. A factor is an e-value: as long as the observation's mean, given everything before it, is
at most the limit, the factor's mean is at most 1. Then M minus the number of observations is a supermartingale, so

* the mean number of observations until a false alarm is at least the threshold;
* a false alarm within n observations has at most the probability n / threshold.

Nothing else is assumed: neither independence nor a distribution. The factor is the likelihood ratio of a coin, which
stays an e-value for any observation between 0 and 1 (Waudby-Smith and Ramdas, *Estimating means of bounded random
variables by betting*, arXiv 2010.09686).
"""

from __future__ import annotations

from dataclasses import dataclass

# More evidence says nothing new; a float must not overflow.
_MOST = 1e30


def factor(value: float, limit: float, alternative: float) -> float:
    """Return the e-value of an observation from 0 to 1 against a mean of at most ``limit``.

    It grows fastest if the mean is ``alternative``, which must be between ``limit`` and 1.
    """
    return value * alternative / limit + (1 - value) * (1 - alternative) / (1 - limit)


@dataclass(slots=True)
class Detector:
    """The evidence that the mean of a stream of observations from 0 to 1 has risen above a limit."""

    limit: float
    alternative: float
    threshold: float
    evidence: float = 0.0
    observations: int = 0

    def add(self, value: float) -> bool:
        """Add an observation; return whether the evidence has reached the threshold."""
        self.observations += 1
        self.evidence = min((self.evidence + 1) * factor(value, self.limit, self.alternative), _MOST)
        return self.raised

    @property
    def raised(self) -> bool:
        """Whether the evidence is at least the threshold."""
        return self.evidence >= self.threshold
