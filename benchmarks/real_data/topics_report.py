"""Tables and a picture of what `topics` has found: perplexity against processor time.

Cells are medians over the seeds that are there, of perplexity and of seconds of one thread's
processor time. Of a rival's topic priors, that of the lower perplexity after most passes is shown.

    python -m benchmarks.real_data.topics_report --plot doc/images/topics.png
"""

import argparse
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.real_data.topics import RESULTS, key_of, records

NAMES = {"kos": "KOS", "union": "State of the Union", "bible": "King James"}
WHO = {
    "default": "default",
    "map": '`e_step="map"`',
    "batch": "batch",
    "gibbs, last": "gibbs, last sweep",
    "gibbs, averaged": "gibbs, averaged",
    "stochastic, last": "stochastic, last sweep",
    "stochastic, averaged": "stochastic, averaged",
    "scikit-learn online": "scikit-learn online",
    "scikit-learn batch": "scikit-learn batch",
    "tomotopy": "tomotopy",
}


class Point(NamedTuple):
    """What somebody came to after n passes or sweeps."""

    n: int
    perplexity: float
    seconds: float
    n_seeds: int
    prior: float | None


def curves(found):
    """Points of each corpus, number of topics and contestant, by rising number of passes."""
    groups = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    # Runs that were repeated, as one was interrupted, count once.
    for one in {key_of(one): one for one in found}.values():
        key = one["corpus"], one["components"], one["who"]
        groups[key][one["prior"]][one["n"]].append(one)
    return {key: min(map(_curve, by_prior.values()), key=_end) for key, by_prior in groups.items()}


def _curve(by_passes):
    return [_point(n, ones) for n, ones in sorted(by_passes.items())]


def _end(curve):
    return -curve[-1].n, curve[-1].perplexity


def _point(n, ones):
    perplexity = median(one["perplexity"] for one in ones)
    return Point(n, perplexity, median(one["seconds"] for one in ones), len(ones), ones[0]["prior"])


def table(known, n_components):
    """A table in Markdown: passes, and perplexity at seconds, for each corpus."""
    corpora = [name for name in NAMES if any(key[:2] == (name, n_components) for key in known)]
    yield "| " + " | ".join([f"K = {n_components}", *map(NAMES.get, corpora)]) + " |"
    yield "|---" * (len(corpora) + 1) + "|"
    for who, label in WHO.items():
        cells = [_cell(known.get((corpus, n_components, who), ())) for corpus in corpora]
        if any(cells):
            yield "| " + " | ".join([label, *cells]) + " |"


def _cell(curve):
    passes = " / ".join(str(point.n) for point in curve)
    values = " / ".join(f"{p.perplexity:.0f} @{_short(p.seconds)}" for p in curve)
    return f"{values} ({passes}; {min(p.n_seeds for p in curve)})" if curve else ""


def _short(seconds):
    return f"{seconds:.2g}" if seconds < 10 else f"{seconds:.0f}"


# --------------------------------------------------------------------------------------- demands


def demands(known, n_components):
    """Lines that say what was asked for, and what came out."""
    corpora = [name for name in NAMES if (name, n_components, "default") in known]
    for corpus in corpora:
        curve = {who: known.get((corpus, n_components, who)) for who in WHO}
        for line in (*_against_tomotopy(curve), *_against_scikit_learn(curve), *_averages(curve)):
            yield f"{NAMES[corpus]}, K = {n_components}: {line}"


def _against_tomotopy(curve):
    ours, theirs = curve["default"], curve["tomotopy"]
    if not (ours and theirs):
        return
    last, goal = theirs[-1], 1.01 * theirs[-1].perplexity
    yield (
        f"default, {ours[-1].n} passes: {_percent(ours[-1].perplexity, last.perplexity)} of"
        f" tomotopy, {last.n} sweeps"
    )
    one, other = _time_to(ours, goal), _time_to(theirs, goal)
    if one is not None:
        yield (
            f"to within 1 % of that in 1/{last.seconds / one:.1f} of its time, and in"
            f" 1/{other / one:.1f} of its own time to there"
        )


def _time_to(curve, perplexity):
    return next((point.seconds for point in curve if point.perplexity <= perplexity), None)


def _against_scikit_learn(curve):
    for who, label, rival in (("default", "default", "batch"), ("map", "map", "online")):
        ours, theirs = curve[who], curve[f"scikit-learn {rival}"]
        if ours and theirs:
            one, other = ours[0], theirs[0]
            yield (
                f"{label}, one pass: {_percent(one.perplexity, other.perplexity)} of scikit-learn"
                f" {rival}, in 1/{other.seconds / one.seconds:.0f} of the time"
            )


def _averages(curve):
    for who in ("gibbs", "stochastic"):
        last, averaged = curve[f"{who}, last"], curve[f"{who}, averaged"]
        if last and averaged:
            yield f"{who}, averaged: {_percent(averaged[0].perplexity, last[0].perplexity)} of last"


def _percent(value, reference):
    return f"{100 * (value / reference - 1):+.1f} %"


# --------------------------------------------------------------------------------------- picture


def plot(known, n_components, path):
    """Perplexity against seconds, a panel for each corpus."""
    import matplotlib.pyplot as plt

    corpora = [name for name in NAMES if (name, n_components, "default") in known]
    figure, axes = plt.subplots(
        1, len(corpora), figsize=(3.2 * len(corpora), 3.6), layout="constrained", squeeze=False
    )
    for ax, corpus in zip(axes[0], corpora, strict=True):
        for i, who in enumerate(WHO):
            _draw(ax, known.get((corpus, n_components, who), ()), who, i)
        ax.set(title=NAMES[corpus], xscale="log", xlabel="processor time (s)")
    axes[0, 0].set_ylabel(f"perplexity, {n_components} topics")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


def _draw(ax, curve, who, number):
    theirs = who.startswith(("scikit-learn", "tomotopy"))
    seconds, perplexities = [p.seconds for p in curve], [p.perplexity for p in curve]
    style = {"linestyle": "--", "marker": "x"} if theirs else {"linestyle": "-", "marker": "o"}
    ax.plot(seconds, perplexities, label=who, color=f"C{number}", markersize=4, **style)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, nargs="+", default=[RESULTS])
    parser.add_argument("--components", type=int, default=50, help="of the picture")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="picture to write")
    arguments = parser.parse_args()
    found = [one for path in arguments.results for one in records(path)]
    known = curves(found)
    for n_components in sorted({key[1] for key in known}):
        print(*table(known, n_components), sep="\n", end="\n\n")
        print(*demands(known, n_components), sep="\n", end="\n\n")
    loads = [one["load"] for one in found]
    if loads:
        print(f"Load of the machine: median {median(loads):.1f}, at most {max(loads):.1f}.")
    if arguments.plot:
        plot(known, arguments.components, arguments.plot)


if __name__ == "__main__":
    main()
