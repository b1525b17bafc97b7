"""One update of scikit-learn's MiniBatchKMeans."""

from sklearn.cluster import MiniBatchKMeans


def update(first_batch, batch, n_clusters):
    """Return a function that updates the centres with `batch`."""
    clusters = MiniBatchKMeans(n_clusters, random_state=0).partial_fit(first_batch)
    return lambda: clusters.partial_fit(batch)
