"""
==============================================
Classification by Gaussian HMMs: spoken digits
==============================================

Each digit has a hidden Markov model that goes from left to right through its sounds. The models
read each recording once. After 105 recordings, ten or eleven of each digit on average, they
recognise 49 of 50 held-out recordings of the same speaker.
"""

# %%
# The data
# --------
# The data are 200 recordings of one speaker of the Free Spoken Digit Dataset, as cepstral
# coefficients of frames of 25 ms, one each 10 ms. The first five recordings of each digit are the
# test set.

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from sklearn_onlineem import GaussianHMM
from sklearn_onlineem.displays import StatePathDisplay

stored = np.load(Path(sys.argv[0]).resolve().parents[1] / "data" / "spoken_digits.npz")
frames = stored["mfcc_times_4"] / 4.0
recordings = np.split(frames, np.cumsum(stored["lengths"])[:-1])
digits, is_test = stored["digit"], stored["take"] < 5

# %%
# One pass
# --------
# A model has five states. From each state only the next one can be reached. The states start at the
# means of five equal parts of the first recording of their digit.

N_STATES = 5
moves = 0.8 * np.eye(N_STATES) + 0.2 * np.eye(N_STATES, k=1)
moves[-1, -1] = 1.0


def parts_of(recording):
    """Return the means of five equal parts, where the states start."""
    return np.array([part.mean(axis=0) for part in np.array_split(recording, N_STATES)])


hmms = {}
order = np.random.default_rng(0).permutation(np.flatnonzero(~is_test))
accuracies = []
test = np.flatnonzero(is_test)
for n_heard, i in enumerate(order, start=1):
    digit = int(digits[i])
    if digit not in hmms:
        hmms[digit] = GaussianHMM(
            N_STATES, startprob_init=np.eye(N_STATES)[0], transmat_init=moves,
            means_init=parts_of(recordings[i]), reg_covar=4.0, random_state=0,
        )  # fmt: skip
    hmms[digit].partial_fit([recordings[i]])
    if n_heard % 15 == 0 and len(hmms) == 10:
        scores = [hmms[d].score_samples([recordings[j] for j in test]) for d in range(10)]
        accuracies.append((n_heard, np.mean(np.argmax(scores, axis=0) == digits[test])))
        print(f"{n_heard:4} recordings heard: {accuracies[-1][1]:.0%} of {len(test)} recognised")

# %%
# A word, and its sounds
# ----------------------
# The plot shows the states of a "seven", with the first two coefficients. There is a frame every
# 10 ms.

fig = plt.figure(figsize=(7, 7), layout="constrained")
curve, path = fig.subfigures(2, 1, height_ratios=[2, 3])
ax = curve.subplots()
ax.plot(*zip(*accuracies, strict=True), "ko-")
ax.set(xlabel="recordings heard", ylabel="test recordings recognised", ylim=(0.8, 1.01))
ax.set_title("Digits that are recognised, recording by recording")
seven = recordings[test[digits[test] == 7][0]]
axes = path.subplots(2, 1, height_ratios=[3, 1], sharex=True)
StatePathDisplay.from_estimator(hmms[7], seven, ax=axes, features=[0, 1])
axes[0].set_title("The states of a seven")

if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    fig.savefig(folder / "spoken_digits.png", dpi=100)
