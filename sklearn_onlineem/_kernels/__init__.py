"""Compiled loops: arrays in, arrays out, no GIL, no knowledge of any estimator."""

# The map
#
#   _natural            mixtures of exponential families in natural form, dense rows: two matrix
#                       products with the sufficient statistics of the centred rows
#   _natural_gaussian   full Gaussians through _natural: moments in, moments out
#   _gaussian           Gaussians centred on each component, through Cholesky factors of their
#                       precisions: where the natural form would lose digits, or d is large
#   _counts             the natural form for CSR rows of counts; log factorials
#   _compound_dirichlet events of documents, which _counts takes as rows; Newton's M-step
#   _gamma_functions    log gamma, digamma, trigamma and their differences (.pxd only)
#   _responsibilities   log-sum-exp over components, labels, sampled assignments
#   _forward_backward   hidden chains: posteriors, filtered states, drawn paths (with _chains.h)
#   _log_chains         ... with logarithms, where those would lose states; Viterbi (with a .pxd and
#                       _best_paths.h)
#   _kalman             filter and smoother of linear dynamical systems, any value missing (with .h,
#                       _kalman_evidence.h and .pxd, _moments.h)
#   _kalman_shared      ... of sequences without gaps, which share covariances; the states under the
#                       model itself (with .h, _kalman_usage.h)
#   _edit_lattice       transducers of strings: expected edit operations, distances (with a .h)
#   _small_matrices     factorising and comparing K matrices of d x d
#   _centred_moments    weights, means and scatters: made, added, turned into covariances
#   _rows               whether rows can be taken as they are
#   _openmp             the number of threads; how rows are shared among them (.pxd)
#   _blas, _memory      BLAS calls; scratch memory (.pxd only)
#   _arrays             checked pointers, where memoryviews would cost more than the work (.pxd)
#   _fused_products     matrix products with products of features that are never stored (.h, .pxd)
#   _small_forms        what BLAS would do for _gaussian, where features are few (.h, .pxd)
#   _simd               exp, log and loops over columns that vectorise (.h, .pxd)
#
#   _natural, _gaussian, _counts -> _responsibilities -> _simd
#               |
#               +-> _openmp, _memory, _blas, _fused_products
#
# The three at the left each offer the same trio
#
#   e_step          rows and parameters -> expected statistics, sum of log-likelihoods
#   log_density     rows and parameters -> log joint densities (n, K)
#   statistics      rows and responsibilities -> expected statistics
#
# and share three conventions. X is float or double; parameters and accumulated statistics are
# double. Arrays come C-ordered, aligned, not empty and of agreeing shapes: the caller has seen to
# it. An optional array is left out by length 0.
