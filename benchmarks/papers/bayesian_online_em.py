"""Brochu, de Freitas & Bao (2004): Bayesian online EM learns clusters of documents one by one.

Five clusters over 1000 words, word probabilities uniform on (0, 1) and normalised, as are those of
the starts; 10,000 documents of 5000 words, or of 100. One data set, 50 random starts, the same for
all methods; one document a step unless said otherwise. The paper does not say its prior masses;
"mass" is what the prior counts for on the words of each component, in words, with one document on
its weight.

    python -m benchmarks.papers.bayesian_online_em --plot bayesian_online_em.png
    python -m benchmarks.papers.bayesian_online_em --quick

"log posterior" is the paper's measure, log-likelihood plus log prior of all documents, per
document, of which the truth's is subtracted; the prior is one for all methods, symmetric Dirichlets
of concentration 1.5. "lost" is (truth - model) / (truth - one cluster) of the log-likelihood: 0 is
as good as the truth, 1 as bad as one cluster; median [least, greatest] over starts. "clusters" are
those of weight above .01. Below each row stand the numbers of a reference implementation in NumPy
with other draws and ten starts, where it has them.

SOEM is stochastic approximation with the step sizes that are named. A "mild" start counts for a
hundredth of a document's words, as the prior of Bayesian online EM with a mass of length / 100. In
component-wise forgetting what a component stands for is multiplied by zeta ** responsibility before
a document is added. In the shrinkage experiment six components are fitted to two clusters of
weights .8 and .2. The last table says for which lengths and priors Bayesian online EM wins, from at
most ten starts; "SOEM" is the best of its schedules, "own start" Bayesian online EM as an estimator
starts it, from its first 500 documents.
"""

import argparse
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from benchmarks._table import Table
from benchmarks._timing import CPU, ratio
from sklearn_onlineem import MultinomialMixture
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.em import BayesianOnline, Forgetting, Harmonic
from sklearn_onlineem.em.schedules import learning_rate
from sklearn_onlineem.em.solvers import RunningStatistics, running_step
from sklearn_onlineem.em.step import batch_step, online_step
from sklearn_onlineem.families import Multinomial
from sklearn_onlineem.models.mixtures.mixture import MixtureModel, MixtureStatistics
from sklearn_onlineem.statistics import Sums

N_WORDS, N_CLUSTERS, N_FITTED_TO_TWO = 1000, 5, 6
LONG, SHORT = LENGTHS = (5000, 100)
N_BATCH_STEPS, N_FIRST, BATCH_SIZE = 20, 500, 100
CONCENTRATION, MILD = 1.5, 0.01


@dataclass(frozen=True)
class Corpus:
    """Documents of one length, with the log-likelihoods of the truth and of one cluster."""

    length: int
    data: Rows
    truth: float
    one: float
    true: MixtureModel

    @classmethod
    def sample(cls, length, n_documents, weights, seed=0):
        rng = np.random.default_rng(seed)
        phi = random_probabilities(len(weights), rng)
        clusters = rng.choice(len(weights), size=n_documents, p=weights)
        data = Rows(rng.multinomial(length, phi[clusters]).astype(np.float64))
        true = MixtureModel(Multinomial(), np.asarray(weights), length * phi)
        one = MixtureModel(Multinomial(), np.ones(1), data.X.mean(axis=0)[None])
        return cls(length, data, *(float(m.log_likelihood(data).sum()) for m in (true, one)), true)

    def log_posterior(self, model):
        """In nats per document, less the truth's."""
        return (posterior_of(model, self.data) - posterior_of(self.true, self.data)) / len(
            self.data
        )

    def start(self, n_components, seed):
        phi = random_probabilities(n_components, np.random.default_rng((1, seed)))
        uniform = np.full(n_components, 1.0 / n_components)
        return MixtureModel(Multinomial(), uniform, self.length * phi)

    def documents(self, begin=0):
        return (self.data[i : i + 1] for i in range(begin, len(self.data)))

    def batches(self, size):
        return (self.data[i : i + size] for i in range(0, len(self.data), size))

    def lost(self, model):
        reached = model.log_likelihood(self.data).sum()
        return float((self.truth - reached) / (self.truth - self.one))


def posterior_of(model, data):
    mixture = MultinomialMixture.from_parameters(
        weights=model.weights, means=model.parameters, prior={"concentration": CONCENTRATION},
        weight_concentration_prior=np.full(model.n_components, CONCENTRATION),
    )  # fmt: skip
    return mixture.log_posterior(data.X)


def random_probabilities(n, rng):
    phi = rng.random((n, N_WORDS))
    return phi / phi.sum(axis=1, keepdims=True)


# ------------------------------------------------------------- methods: (corpus, start) -> model


def batch_em(corpus, start, concentration=1.0):
    prior = Multinomial().prior_statistics(
        start.n_components, n_features=N_WORDS, concentration=concentration
    )
    terms = [(1.0 / len(corpus.data), MixtureStatistics(np.zeros(start.n_components), prior))]
    return settled(corpus.data, start, terms)


def settled(data, model, prior=()):
    for _ in range(N_BATCH_STEPS):
        model, _ = batch_step(model, data, prior)
    return model


def boem(corpus, start, mass):
    """Bayesian online EM whose prior counts for so many words of each component."""
    model, carried = start, prior_of(start, mass)
    for document in corpus.documents():
        model, carried, *_ = running_step(model, document, carried)
    return model


def prior_of(start, mass):
    """Dirichlet hyper-parameters, alpha = 1 and beta = mass x the start's probabilities."""
    K = start.n_components
    phi = start.family.probabilities(start.parameters)
    return RunningStatistics(
        K, MixtureStatistics(np.full(K, 1 / K), Sums(np.full(K, 1 / K), mass / K * phi))
    )


def soem(corpus, start, schedule, share=1.0):
    """Stochastic approximation from a start that counts for a share of a document's words."""
    model = replace(start, parameters=share * start.parameters)
    for t, document in enumerate(corpus.documents(), start=1):
        model, _ = online_step(model, document, schedule(t))
    return model


def powers(t0, kappa):
    """The step sizes (t0 + t)^-kappa, as forgetting that depends on time."""

    def factor(t):
        return (t0 + t - 1.0) ** -kappa * ((t0 + t) ** kappa - 1.0)

    return Forgetting(factor, eta0=learning_rate((t0 + 1.0) ** -kappa))


def component_wise_forgetting(corpus, start, mass, zeta):
    """Each component forgets in proportion to what it learns."""
    model, carried = start, prior_of(start, mass)
    alpha = carried.mass * carried.statistics.counts
    beta = carried.mass * carried.statistics.emissions.total
    for document in corpus.documents():
        evidence, _ = model.e_step(document)
        kept = zeta**evidence.counts
        alpha = kept * alpha + evidence.counts
        beta = kept[:, None] * beta + evidence.emissions.total
        model = model.m_step(MixtureStatistics(alpha, Sums(alpha, beta)))
    return model


def batch_em_first(corpus, start):
    """Batch EM on the first documents, and Bayesian online EM from there."""
    first = corpus.data[:N_FIRST]
    model = settled(first, start)
    carried = RunningStatistics(first.total_weight, model.e_step(first)[0])
    for document in corpus.documents(N_FIRST):
        model, carried, *_ = running_step(model, document, carried)
    return model


def online_em(corpus, start):
    """Online EM as an estimator does it, in batches, at its own rates."""
    mixture = MultinomialMixture(
        start.n_components, solver="online", means_init=start.parameters, prior=None
    )
    for batch in corpus.batches(BATCH_SIZE):
        mixture.partial_fit(batch.X)
    return mixture.model_


def default_start(corpus, start):
    """Bayesian online EM as an estimator does it, which settles on the first documents."""
    seed = int(start.parameters[0, 0] * 1e6)  # another start for each
    mixture = MultinomialMixture(
        start.n_components, solver="bayesian", random_state=seed, prior=None
    )
    for batch in corpus.batches(N_FIRST):
        mixture.partial_fit(batch.X)
    return mixture.model_


def per_length(method, share):
    return lambda corpus, start: method(corpus, start, mass=share * corpus.length)


BATCH, SMALL, LARGE = "batch EM, 20 iterations", "BOEM, mass = length / 100", "BOEM, mass = length"
DEFAULT = "BOEM, default start, batches of 500"
SOEM = {
    "SOEM, 1 / (.7 t + 5000)": partial(soem, schedule=Harmonic(b=0.7, c=4999.0)),
    "SOEM, (5000 + t)^-.7": partial(soem, schedule=powers(5000.0, 0.7)),
    "SOEM, (10 + t)^-.7": partial(soem, schedule=powers(10.0, 0.7)),
    "SOEM, 1 / (t + 1)": partial(soem, schedule=Harmonic()),
    "SOEM, (10 + t)^-.7, mild": partial(soem, schedule=powers(10.0, 0.7), share=MILD),
    "SOEM, 1 / (t + 1), mild": partial(soem, schedule=Harmonic(), share=MILD),
}
METHODS = {
    BATCH: batch_em,
    SMALL: per_length(boem, 0.01),
    "BOEM, mass = 1000": partial(boem, mass=1000.0),
    LARGE: per_length(boem, 1.0),
    **SOEM,
    "component-wise forgetting, .999": per_length(
        partial(component_wise_forgetting, zeta=0.999), 0.01
    ),
    "online EM, eta0='auto', batches of 100": online_em,
    "batch EM on 500, then BOEM": batch_em_first,
    DEFAULT: default_start,
}
# Masses of priors by the length of documents, of which the last table is.
WINNING_LENGTHS, WINNING_SHARES = (*LENGTHS, 30, 300, 1000), (0.001, 0.01, 0.1, 1.0, 10.0)
RIVALS = {"batch EM": [BATCH], "SOEM": list(SOEM), "own start": [DEFAULT]}
N_FEWER_STARTS = 10
REFERENCE = {
    (BATCH, LONG): (".158 [0, .23]", "4-5"),
    (BATCH, SHORT): ("-.017 [-.02, .14]", "5"),
    (SMALL, LONG): (".000 [0, .20]", "5 (one 4)"),
    (SMALL, SHORT): (".99", "1"),
    ("BOEM, mass = 1000", LONG): (".83 [.49, 1]", "1-3"),
    ("BOEM, mass = 1000", SHORT): (".59 [.05, .99]", "1-5"),
    (LARGE, LONG): ("1.00", "1"),
    (LARGE, SHORT): (".99 [.67, 1]", "1-2"),
    ("SOEM, 1 / (.7 t + 5000)", LONG): ("1.008", "5, alike"),
    ("SOEM, 1 / (.7 t + 5000)", SHORT): (".96", "5, alike"),
    ("SOEM, (5000 + t)^-.7", LONG): ("1.001 [.68, 1]", "1 (one 2)"),
    ("SOEM, (5000 + t)^-.7", SHORT): (".71 [.22, 1.02]", "1-4"),
    ("batch EM on 500, then BOEM", LONG): (".20 [0, .52]", "3-5"),
    ("batch EM on 500, then BOEM", SHORT): (".20 [.04, .34]", "4-5"),
}
# Clusters left of six, where there are two.
SHRINKAGE = {
    (BATCH, LONG): (batch_em, "2 (5/10) or 3"),
    ("batch EM, beta = 50", LONG): (partial(batch_em, concentration=50.0), "2"),
    (SMALL, LONG): (per_length(boem, 0.01), "2 in 9/10"),
    (LARGE, LONG): (per_length(boem, 1.0), "1"),
    ("batch EM, beta = 50", SHORT): (partial(batch_em, concentration=50.0), "2"),
    ("BOEM, mass = length / 10", SHORT): (per_length(boem, 0.1), "1"),
    ("BOEM, mass = 1000", SHORT): (partial(boem, mass=1000.0), "2"),
}


def main():
    arguments = _arguments()
    n_documents, n_starts = arguments.documents, arguments.starts
    lengths = WINNING_LENGTHS
    if arguments.quick:
        n_documents, n_starts, lengths = 1000, 3, LENGTHS
    even = np.full(N_CLUSTERS, 1 / N_CLUSTERS)
    corpora = [Corpus.sample(n, n_documents, even) for n in LENGTHS]
    print(f"{n_documents} documents, {n_starts} starts; below each row the reference\n")
    print(_line("", "length", "lost", "log posterior", "clusters"))
    lost = {}
    for corpus in corpora:
        for name, method in METHODS.items():
            models = [method(corpus, corpus.start(N_CLUSTERS, s)) for s in range(n_starts)]
            lost[name, corpus.length] = _report(name, corpus, models)
            reference = REFERENCE.get((name, corpus.length))
            if reference is not None:
                print(_line("", "", reference[0], "", reference[1]))
    left = shrinkage(n_starts, 4 * n_documents // 10)
    others = [Corpus.sample(n, n_documents, even) for n in lengths if n not in LENGTHS]
    wins = winners([*corpora, *others], min(n_starts, N_FEWER_STARTS), lost)
    print()
    for claim, holds in acceptance(lost, left, wins, corpora):
        print(f"{'met' if holds else 'NOT MET':>8}  {claim}")
    if arguments.plot:
        plot(lost, arguments.plot)


def winners(corpora, n_starts, lost):
    """Medians lost by Bayesian online EM, by length and prior, and by its rivals."""
    print("\nmedian lost by Bayesian online EM, by its mass in documents, and by others")
    table = Table("length", *(f"{share:g}" for share in WINNING_SHARES), *RIVALS, width=8)
    medians = {}
    for corpus in corpora:
        starts = [corpus.start(N_CLUSTERS, seed) for seed in range(n_starts)]

        def median(method, name=None, corpus=corpus, starts=starts):
            known = lost.get((name, corpus.length))
            if known is None:
                known = [corpus.lost(method(corpus, start)) for start in starts]
            return float(np.median(known))

        row = [median(per_length(boem, share)) for share in WINNING_SHARES]
        of_rivals = [
            min(median(METHODS[name], name) for name in names) for names in RIVALS.values()
        ]
        medians[corpus.length] = row, of_rivals
        table.row(corpus.length, *row, *of_rivals)
    return medians


def shrinkage(n_starts, n_documents):
    """Clusters that the methods leave of six where there are two, over starts."""
    print(f"\nsix components, two clusters, {n_documents} documents")
    left = {}
    corpora = {n: Corpus.sample(n, n_documents, [0.8, 0.2], seed=1) for n in LENGTHS}
    for (name, length), (method, reference) in SHRINKAGE.items():
        corpus = corpora[length]
        models = [method(corpus, corpus.start(N_FITTED_TO_TWO, s)) for s in range(n_starts)]
        left[name, length] = [n_clusters(model) for model in models]
        _report(name, corpus, models)
        print(_line("", "", "", "", reference))
    return left


def n_clusters(model):
    return int(np.count_nonzero(model.weights > 0.01))


def acceptance(lost, left, wins, corpora):
    """Claims, each with whether it holds."""
    median = {key: float(np.median(losses)) for key, losses in lost.items()}
    small, batch = median[SMALL, LONG], median[BATCH, LONG]
    yield f"long documents, mass = length / 100: at most .10 lost: {small:.3f}", small <= 0.10
    yield f"and at most batch EM's + .02: {small:.3f}, {batch:.3f}", small <= batch + 0.02
    whole = min(median[name, LONG] for name in SOEM if not name.endswith("mild"))
    yield f"and less than SOEM's from a start that counts in full: {whole:.3f}", small < whole
    mild = median["SOEM, 1 / (t + 1), mild", LONG]
    yield f"but 1 / (t + 1) from a mild start loses as little: {mild:.3f}", mild <= small + 0.02
    large = median[LARGE, LONG]
    yield f"mass = length: at least .9 lost: {large:.3f}", large >= 0.9
    short, best = (min(losses) for losses in wins[SHORT])
    yield (
        f"short documents: no prior is as good as the best rival: {short:.3f}, {best:.3f}",
        (short > best),
    )
    default = median[DEFAULT, SHORT]
    yield f"short documents, default start: at most .25 lost: {default:.3f}", default <= 0.25
    two = left[SMALL, LONG]
    share = np.mean(np.array(two) == 2)
    yield f"shrinkage: exactly 2 clusters left in 8 of 10 starts: {two}", share >= 0.8
    distance = distance_to_estimator(corpora[0])
    yield f"the estimator ends where these steps do: {distance:.0e} apart", distance < 1e-9
    cost = 1.0 / cost_of_online(corpora[0])
    yield f"partial_fit takes at most 1.05 of online EM's time: {cost:.2f}", cost <= 1.05


def distance_to_estimator(corpus):
    """Greatest difference of probabilities after 300 documents, to the estimator's."""
    few = replace(corpus, data=corpus.data[:300])
    start = few.start(N_CLUSTERS, 0)
    mixture = MultinomialMixture(
        N_CLUSTERS,
        solver=BayesianOnline(start_mass=0.01),
        weight_concentration_prior=1.99,  # so that alpha is .01 + .99
        prior=None,
        means_init=start.parameters,
        weights_init=start.weights,
    )
    for document in few.documents():
        mixture.partial_fit(document.X)
    model = boem(few, start, mass=0.01 * corpus.length)
    return np.abs(mixture.probabilities_ - model.family.probabilities(model.parameters)).max()


def cost_of_online(corpus):
    """How many times the time of Bayesian online EM online EM takes, in batches of 100."""
    batches = [batch.X for batch in corpus.batches(BATCH_SIZE)]

    def streaming(solver):
        mixture = MultinomialMixture(N_CLUSTERS, solver=solver, random_state=0, n_jobs=1)
        mixture.partial_fit(batches[0])
        return lambda: [mixture.partial_fit(batch) for batch in batches[1:]]

    return ratio(streaming("online"), streaming("bayesian"), CPU, n_rounds=21)


def plot(lost, path):
    """What each start of each method lost."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(LENGTHS), figsize=(11, 4), sharey=True, layout="constrained")
    for ax, length in zip(axes, LENGTHS, strict=True):
        for row, name in enumerate(METHODS):
            losses = lost[name, length]
            ax.plot(losses, [row] * len(losses), "|", color="C0", markersize=12)
            ax.plot(np.median(losses), row, "o", color="C1")
        ax.set(title=f"documents of length {length}", xlabel="log-likelihood lost (share)")
    axes[0].set_yticks(range(len(METHODS)), METHODS)
    axes[0].invert_yaxis()
    figure.savefig(path, dpi=150)


def _report(name, corpus, models):
    """Print a row of a method, and return what its models have lost."""
    losses = [corpus.lost(model) for model in models]
    posteriors = [corpus.log_posterior(model) for model in models]
    cells = _spread(losses), f"{np.median(posteriors):.3f}", _clusters(models)
    print(_line(name, corpus.length, *cells), flush=True)
    return losses


def _spread(values):
    return f"{np.median(values):.3f} [{min(values):.3f}, {max(values):.3f}]"


def _clusters(models):
    numbers, times = np.unique([n_clusters(model) for model in models], return_counts=True)
    return ", ".join(f"{n} ({k}x)" for n, k in zip(numbers, times, strict=True))


def _line(name, length, lost, log_posterior, clusters):
    return f"{name:<40}{length:>6}  {lost:<26}{log_posterior:>13}  {clusters}"


def _arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--starts", type=int, default=50)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--quick", action="store_true", help="1000 documents, 3 starts")
    parser.add_argument("--plot", metavar="FILE", help="picture to write (needs matplotlib)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
