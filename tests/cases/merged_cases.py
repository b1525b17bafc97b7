"""The estimators that are merged with others, and that learn from shards: all of them."""

from cases.capabilities import DOCUMENTS
from cases.estimator_cases import ESTIMATORS, EstimatorCase, document_clusters
from cases.sequence_cases import KALMAN_FILTERS, SEQUENCE_ESTIMATORS
from sklearn_onlineem import CompoundDirichlet, EditDistance, LatentDirichletAllocation

LETTERS = "abcd"


class OneComponent(EstimatorCase):
    """An estimator without components that could change places."""

    def __call__(self, n_components=1, **arguments):
        return self.make(**{"random_state": 0, **self.arguments, **arguments})


class Pairs(OneComponent):
    """An edit distance; its data are words, and what a careless writer makes of them."""

    def data(self, rng, n=300, n_clusters=1):
        words = ["".join(rng.choice(list(LETTERS), length)) for length in rng.integers(1, 7, n)]
        return [(written(rng, word), word) for word in words], None


def written(rng, word):
    chances = {letter: [letter, letter, letter, "", LETTERS[0], 2 * letter] for letter in word}
    return "".join(rng.choice(chances[letter]) for letter in word)


NUMBERED = [*ESTIMATORS, *SEQUENCE_ESTIMATORS]
SINGLE = [
    OneComponent(CompoundDirichlet, document_clusters, **DOCUMENTS),
    Pairs(EditDistance, None, {"alphabet": LETTERS}, "EditDistance(tied)"),
    Pairs(
        EditDistance,
        None,
        {"alphabet": LETTERS, "parametrization": "full", "operation_prior": 1.0},
        "EditDistance(full)",
    ),  # fmt: skip
]
# Topics are numbered, too, and have neither responsibilities nor exact likelihoods.
TOPICS = [
    EstimatorCase(
        LatentDirichletAllocation, document_clusters, {"e_step": e_step}, regular=False, **DOCUMENTS
    )
    for e_step in ("gibbs", "map")
]
# Their posteriors have a closed form, so that passes are known to the last digits, and their
# solvers are all of `SOLVERS`' for exact models, "auto" among them.
EXACT = [*NUMBERED, *KALMAN_FILTERS, *SINGLE]
MERGED = [*EXACT, *TOPICS]
# One for each way from data to a model and back: laws on what all of these share go over them.
WAYS = {
    "GaussianMixture(full)", "PoissonMixture", "CompoundDirichletMixture", "MarkovChainMixture",
    "LaplaceMixture", "StudentTMixture(full, each)", "GaussianHMM(diag)", "CategoricalHMM",
    "HMM(gaussian, absorbing)", "KalmanFilter", "CompoundDirichlet", "EditDistance(tied)",
    "LatentDirichletAllocation(gibbs)",
}  # fmt: skip
REPRESENTATIVES = [case for case in MERGED if repr(case) in WAYS]
# Their fitted attributes can be set.
KNOWN = MERGED
# Where steps from a common start, merged, are the step on the pooled batch.
REGULAR = [case for case in MERGED if case.regular]


def once_for_each_parameter(cases):
    """Pairs of a case and a parameter: each once for the class that declares it, and each room."""
    found = {}
    for case in cases:
        kind = type(case())
        for name in case().get_params(deep=False):
            owner = next(
                (k for k in kind.__mro__ if name in vars(k).get("__annotations__", {})), kind
            )
            key = name, owner, kind.__module__.split(".")[2]
            # Some parameters require others, which cases set together.
            is_set = name in case.arguments and name not in found.get(key, (case,))[0].arguments
            found[key] = (case, name) if is_set else found.get(key, (case, name))
    return list(found.values())
