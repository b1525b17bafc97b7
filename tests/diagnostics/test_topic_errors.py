"""Standard errors of topics given the proportions of documents."""

import numpy as np
import pytest
from cases.fitted_cases import hessian, jacobian
from numpy.testing import assert_allclose
from scipy import sparse, special

from sklearn_onlineem import LatentDirichletAllocation
from sklearn_onlineem.diagnostics import standard_errors
from sklearn_onlineem.diagnostics.standard_errors import topic_errors


def fitted(counts, proportions, smoothing, weight, start):
    """Topics at the maximum, by EM for given proportions."""
    topics = start
    for _ in range(4000):
        p = proportions @ topics
        n = topics * (proportions.T @ (weight[:, None] * counts / p)) + smoothing * (topics > 0.0)
        topics = n / n.sum(axis=1, keepdims=True)
    return topics


@pytest.mark.parametrize("smoothing", [0.0, 0.7])
@pytest.mark.parametrize("weighted", [False, True])
def test_errors_are_those_of_the_numerical_hessian(smoothing, weighted, rng):
    K, V = 2, 4
    proportions = rng.dirichlet(np.ones(K), 60)
    counts = rng.multinomial(30, proportions @ rng.dirichlet(np.ones(V), K)).astype(float)
    weight = rng.integers(1, 4, 60).astype(float) if weighted else np.ones(60)
    topics = fitted(counts, proportions, smoothing, weight, rng.dirichlet(np.ones(V), K))

    def decode(x):
        return special.softmax(np.column_stack([x.reshape(K, V - 1), np.zeros(K)]), axis=1)

    def log_posterior(x):
        phi = decode(x)
        likelihood = (weight[:, None] * counts * np.log(proportions @ phi)).sum()
        return likelihood + smoothing * np.log(phi).sum()

    x = (np.log(topics[:, :-1]) - np.log(topics[:, -1:])).ravel()
    assert_allclose(jacobian(lambda x: np.array([log_posterior(x)]), x), 0.0, atol=1e-3)
    variance = np.linalg.inv(-hessian(log_posterior, x))
    moves = jacobian(lambda x: decode(x).ravel(), x)
    expected = np.sqrt(np.diag(moves @ variance @ moves.T)).reshape(K, V)
    found = topic_errors(topics, proportions, sparse.csr_array(counts), smoothing, weight)
    assert_allclose(found, expected, rtol=1e-5)


def test_documents_of_one_topic_have_the_errors_of_shares(rng):
    """And words that a topic lacks have none."""
    topics = np.array([[0.5, 0.3, 0.2, 0.0], [0.0, 0.0, 0.4, 0.6]])
    counts = np.array([[50.0, 30.0, 20.0, 0.0], [0.0, 0.0, 80.0, 120.0]])
    found = topic_errors(topics, np.eye(2), sparse.csr_array(counts))
    assert_allclose(found, np.sqrt(topics * (1.0 - topics) / [[100.0], [200.0]]))


def test_words_of_too_few_documents_are_refused(rng):
    topics, proportions = rng.dirichlet(np.ones(3), 2), rng.dirichlet(np.ones(2), 5)
    counts = np.full((5, 3), 2.0)
    counts[1:, 1] = 0.0
    with pytest.raises(ValueError, match="probabilities of word 1"):
        topic_errors(topics, proportions, sparse.csr_array(counts))
    assert (topic_errors(topics, proportions, sparse.csr_array(counts), 0.1) > 0.0).all()


def test_of_a_fitted_estimator_they_are_those_of_its_pseudo_counts(rng):
    topics = np.array([[0.5, 0.3, 0.1, 0.1], [0.1, 0.1, 0.3, 0.5]])
    X = rng.multinomial(200, rng.dirichlet(np.ones(2), 300) @ topics)
    allocation = LatentDirichletAllocation(2, random_state=0).fit(X)
    found = standard_errors(allocation, X)
    counts = allocation.components_
    shares = found.errors["components_"] / counts.sum(axis=1, keepdims=True)
    assert_allclose(found.estimates["components_"], counts)
    # Some 30,000 tokens of each topic, if it were known which.
    known = np.sqrt(topics * (1.0 - topics) / 30_000.0)
    order = np.argsort(-counts[:, 0])
    assert (known < shares[order]).all() and (shares[order] < 5.0 * known).all()
    with pytest.raises(ValueError, match="robust=True is not implemented for topics"):
        standard_errors(allocation, X, robust=True)
