"""One pass of k-means by faiss, in single precision."""

import faiss
import numpy as np


def lloyd_pass(X, means, n_threads):
    """Return a function that assigns rows to centres, moves these, and returns the distortion."""
    faiss.omp_set_num_threads(n_threads)
    n_clusters, d = means.shape
    clusters = faiss.Kmeans(d, n_clusters, niter=1, max_points_per_centroid=len(X))
    centres = means.astype(np.float32)

    def run():
        clusters.train(X, init_centroids=centres)
        return clusters.obj[0]

    return run
