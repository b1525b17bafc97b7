"""
=============================================================
Segments by a hidden Markov model: the genome of phage lambda
=============================================================

In the genome of the phage lambda, segments rich in the bases G and C alternate with poorer ones. A
hidden Markov model with two states finds the segments, as in [Churchill1989]_.

Here ``partial_fit`` reads the 48,502 bases once, in 97 pieces of some 500, as if they came from a
machine. With ``continues=True`` a piece continues the one before. We compare the result with batch
EM, which reads the whole sequence many times.

.. [Churchill1989] G. A. Churchill, "Stochastic models for heterogeneous DNA sequences", Bulletin of
   Mathematical Biology 51, 1989.
"""

# %%
# The data
# --------
# The sequence is NC_001416.1 of the NCBI. One row is one base, as a code.

import gzip
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from sklearn_onlineem import CategoricalHMM

fasta = gzip.decompress(
    (Path(sys.argv[0]).resolve().parents[1] / "data" / "phage_lambda.fa.gz").read_bytes()
)
_, *lines = fasta.decode().splitlines()
X = np.array([["ACGT".index(base)] for base in "".join(lines)], dtype=float)

# %%
# The model
# ---------
# One state starts a little poorer and one a little richer in G and C. Each lasts for a thousand
# bases on average. With a given start the model learns from its first piece as from any other. A
# piece shows one state only, and the default learning rates would forget the other too soon. So the
# rate is smaller and decays faster here. The pieces have equal lengths, as each counts as one
# observation.

start = {
    "n_features": 4,
    "emissionprob_init": [[0.3, 0.2, 0.2, 0.3], [0.2, 0.3, 0.3, 0.2]],
    "transmat_init": [[0.999, 0.001], [0.001, 0.999]],
}

online = CategoricalHMM(2, **start, eta0=0.5, beta=0.9)
pieces = np.array_split(X, 97)
path = []
for piece in pieces:
    online.partial_fit(piece, continues=True)
    path.append(online.emissionprob_[:, 1:3].sum(axis=1))

batch = CategoricalHMM(2, **start, solver="batch", tol=1e-3).fit(X)

# %%
# What they found
# ---------------

print(f"{'':<12}{'nats per base':>14}{'GC, poor':>10}{'GC, rich':>10}   segments begin at")
for name, hmm in {"one pass": online, "batch EM": batch}.items():
    poor, rich = hmm.emissionprob_[:, 1:3].sum(axis=1)
    changes = np.flatnonzero(np.diff(hmm.predict(X))) + 1
    print(f"{name:<12}{hmm.score(X) / len(X):14.4f}{poor:10.3f}{rich:10.3f}  ", 0, *changes)

# %%
# The segments along the genome
# -----------------------------
# The upper plot shows the emission probabilities of the states while the genome is read. The lower
# plot shows the share of G and C in windows of 500 bases, and the most probable path of each model.

kilobases = np.arange(1, len(X) + 1) / 1000
is_gc = np.isin(X.ravel(), (1, 2))
window = np.convolve(is_gc, np.full(500, 1 / 500), mode="same")

fig, (above, below) = plt.subplots(2, 1, figsize=(8, 6), sharex=True, layout="constrained")
read = np.cumsum([len(piece) for piece in pieces]) / 1000
for state, (name, colour) in enumerate({"poor": "C0", "rich": "C1"}.items()):
    above.plot(read, [gc[state] for gc in path], colour, label=f"{name} state, one pass")
    level = batch.emissionprob_[state, 1:3].sum()
    above.axhline(level, color=colour, linestyle="--", label=f"{name} state, batch EM")
above.set(ylabel="GC content of the state", title="Two states learn while the genome is read")
above.legend(ncols=2)

below.plot(kilobases[250:-250], window[250:-250], "0.6", linewidth=0.8, label="windows of 500")
for name, hmm, style in (("one pass", online, "C3-"), ("batch EM", batch, "k:")):
    content = hmm.emissionprob_[:, 1:3].sum(axis=1)
    below.plot(kilobases, content[hmm.predict(X)], style, label=f"segments, {name}")
below.set(xlabel="position (thousands of bases)", ylabel="GC content", xlim=(0, kilobases[-1]))
below.legend()

if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    fig.savefig(folder / "phage_segments.png", dpi=150)
    print(f"\nwritten: {folder / 'phage_segments.png'}")
