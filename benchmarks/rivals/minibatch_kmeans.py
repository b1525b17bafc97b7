"""scikit-learn's MiniBatchKMeans, whose `partial_fit` is one update."""

from sklearn.cluster import MiniBatchKMeans


def start(first_batch, n_clusters):
    """Return clusters that have seen the first batch."""
    return MiniBatchKMeans(n_clusters, random_state=0).partial_fit(first_batch)
