"""Standard errors of topics, given the proportions of topics in documents."""

import numpy as np
from scipy import linalg, sparse

# Least diagonal of a root of the information, relative to the root of its largest entry.
_TINY, _LEAST = np.finfo(float).tiny, 1e-6


def topic_errors(topics, proportions, counts, smoothing=0.0, sample_weight=None):
    r"""Return standard errors of the words' probabilities in topics, (n_components, n_words).

    Given the proportions of documents, (n_documents, n_components), their `counts` of words, CSR,
    and `smoothing` pseudo-counts of each word, the observed information has a block for each word,

    .. math::
        p_{dw} &= \sum_k \theta_{dk} \phi_{kw}, \\
        B_w &= \sum_d c_{dw} \theta_d \theta_d' / p_{dw}^2
        + \beta \operatorname{diag}(1 / \phi_w^2), \\
        \operatorname{Var} \hat\phi_w
        &= B_w^{-1} - B_w^{-1} \Big(\sum_v B_v^{-1}\Big)^{-1} B_w^{-1},

    as topics add up to 1. Errors are too small by what is unknown of proportions, most of all in
    short documents. Probabilities of 0 are known. ValueError is raised for words whose
    probabilities the documents do not determine, such as those in fewer documents than there are
    topics, unless `smoothing` does.
    """
    counts = sparse.csc_array(counts, dtype=np.float64)
    weight = np.ones(counts.shape[0]) if sample_weight is None else sample_weight

    def variance(word):
        """Return the topics in which a word is, and B^-1 of these."""
        phi = topics[:, word]
        seen = np.flatnonzero(phi > 0.0)
        entries = slice(counts.indptr[word], counts.indptr[word + 1])
        documents = counts.indices[entries]
        # In units of the probabilities, in which entries are counts.
        shares = proportions[np.ix_(documents, seen)] * phi[seen]
        shares /= shares.sum(axis=1, keepdims=True)
        tokens = counts.data[entries] * weight[documents]
        information = (shares.T * tokens) @ shares + smoothing * np.eye(len(seen))
        try:
            root = linalg.cholesky(information / max(information.max(initial=0.0), _TINY))
        except linalg.LinAlgError:
            root = None
        if root is None or (len(root) and np.diag(root).min() < _LEAST):
            raise ValueError(f"The documents do not determine the probabilities of word {word}.")
        return seen, phi[seen, None] * np.linalg.inv(information) * phi[seen]

    K, n_words = topics.shape
    total, errors = np.zeros((K, K)), np.zeros((K, n_words))
    for word in range(n_words):
        seen, inverse = variance(word)
        total[np.ix_(seen, seen)] += inverse
    adjustment = np.linalg.inv(total)
    for word in range(n_words):
        seen, inverse = variance(word)
        inverse -= inverse @ adjustment[np.ix_(seen, seen)] @ inverse
        errors[seen, word] = np.sqrt(np.maximum(np.diag(inverse), 0.0))
    return errors
