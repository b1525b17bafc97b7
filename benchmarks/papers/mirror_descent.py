r"""Kunstner, Kumar & Schmidt (2021), figure 2: EM, which is mirror descent, and gradient descent.

Old Faithful, two Gaussians of full covariance. All methods start alike: two random rows as means,
the covariance of all rows, equal weights. "standardised" has features of unit variance, "minutes"
the same rows and starts in the units of the file.

Gradient descent is on the mean negative log-likelihood L in four parametrisations: all natural
parameters; or logits of weights, means, and log-Cholesky factors, covariances or precisions. Its
step is constant, that of a grid which is best in hindsight for each start, or found by search:
twice the last one, halved until

    L(old) - L(new) >= D(old, new) / step,    D = |new - old|^2 / 2.

Steps along natural gradients, by the Fisher information of complete data, are online steps of a
rate rho. D is KL(new || old) there, and the rule always holds at rho = 1, which is EM (proposition
2).

    python -m benchmarks.papers.mirror_descent --plot mirror_descent.png

Cells are log10(L - L*), medians over starts, where -14 is rounding; L* is EM's best. "to 1e-6" is
after how many iterations L - L* is below, median [least, greatest]; "E-steps" how many an iteration
takes.
"""

import argparse
from dataclasses import dataclass

import numpy as np

from benchmarks.datasets import load_old_faithful
from benchmarks.papers._parametrisations import (
    DUAL,
    LOG_CHOLESKY,
    PARAMETRISATIONS,
    Mixtures,
    joined,
    outer,
    to_natural,
)
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.diagnostics.certificates import step_certificate
from sklearn_onlineem.em.step import batch_step, online_step
from sklearn_onlineem.families import Gaussian, Gaussians
from sklearn_onlineem.models.mixtures.mixture import MixtureModel

K, T, SHOWN = 2, 300, (10, 30, 100, 300)
KINDS = ("constant", "searched")
STEPS, RATES = np.logspace(-8, 2, 41), np.linspace(0.2, 1.9, 18)
# Losses are means of 272 numbers near 1, or 4.
NOISE, REACHED, SETTLED, MOST_HALVINGS = 1e-14, 1e-6, 1e-10, 60
FAMILY = Gaussian(reg_covar=0.0)


@dataclass(frozen=True)
class Problem:
    """Rows in some units, and the models that all methods start from."""

    data: Rows
    starts: list

    @classmethod
    def of(cls, X, n_starts):
        covariances = np.array([np.cov(X.T, bias=True)] * K)
        rows = [np.random.default_rng(s).choice(len(X), K, replace=False) for s in range(n_starts)]
        return cls(Rows(X), [model_of(Mixtures(np.ones(K) / K, X[i], covariances)) for i in rows])

    def evaluate(self, parametrisation, theta):
        """Losses (B,), infinite where coordinates are those of no mixture, and directions."""
        X = self.data.X
        features = joined(np.ones(len(X)), X, outer(X, X))
        log_joint = to_natural(parametrisation.mixtures(theta)) @ features.T
        log_density = np.logaddexp.reduce(log_joint, axis=1)
        evidence = np.exp(log_joint - log_density[:, None]) @ features / len(X)
        loss = -log_density.mean(axis=-1)
        direction = parametrisation.direction(theta, evidence)
        return np.where(np.isfinite(loss), loss, np.inf), direction


def model_of(mixtures):
    weights, means, covariances = map(np.ascontiguousarray, mixtures)
    return MixtureModel(FAMILY, weights, Gaussians(means, covariances))


def coordinates_of(models, parametrisation):
    parts = ((m.weights, m.parameters.mean, m.parameters.covariance) for m in models)
    return parametrisation.coordinates(Mixtures(*map(np.array, zip(*parts, strict=True))))


def em(problem):
    """T + 1 iterates of each start, and their certificates."""
    paths = []
    for model in problem.starts:
        paths.append([])
        for _ in range(T + 1):
            paths[-1].append((model, step_certificate(model, problem.data)))
            model, _ = batch_step(model, problem.data)
    return paths


@np.errstate(all="ignore")
def descend(problem, parametrisation, grid=None):
    """Losses (n_starts, size of the grid or 1, T + 1), and E-steps an iteration.

    Parameters
    ----------
    grid : array, default=None
        Constant steps; None: steps are searched for.
    """
    first, searches = coordinates_of(problem.starts, parametrisation), grid is None
    n_steps, n_e_steps = 1 if searches else len(grid), 0.0
    theta = np.repeat(first, n_steps, axis=0)
    steps = np.tile(np.ones(1) if searches else grid, len(first))[:, None, None]
    loss, direction = problem.evaluate(parametrisation, theta)
    losses = [loss]
    for _ in range(T):
        steps, refused = steps * (2.0 if searches else 1.0), np.ones(len(theta), dtype=bool)
        for _ in range(MOST_HALVINGS):
            n_e_steps += refused.mean()
            new = theta - steps * direction
            new_loss, new_direction = problem.evaluate(parametrisation, new)
            demanded = parametrisation.divergence(new, theta) / steps[:, 0, 0] - NOISE
            refused = ~(loss - new_loss >= demanded)
            if not (searches and refused.any()):
                break
            steps = np.where(refused[:, None, None], 0.5 * steps, steps)
        valid = np.isfinite(new_loss)[:, None, None]
        theta, direction = np.where(valid, new, theta), np.where(valid, new_direction, direction)
        loss = new_loss
        losses.append(loss)
    return np.array(losses).T.reshape(len(first), n_steps, T + 1), n_e_steps / T


def reached(gaps):
    """Iterations until a gap is below `REACHED`; infinity if never."""
    below = np.flatnonzero(gaps < REACHED)
    return below[0] if len(below) else np.inf


def all_methods(problem, paths):
    """Yield names, gaps (n_starts, T + 1), and E-steps an iteration."""
    losses = -np.array([[found.log_likelihood for _, found in path] for path in paths])
    best = losses.min()
    yield "EM", losses - best, 1.0
    for name, parametrisation in PARAMETRISATIONS.items():
        for kind in KINDS:
            grid = None if kind == "searched" else RATES if parametrisation is DUAL else STEPS
            runs, n_e_steps = descend(problem, parametrisation, grid)
            chosen = [min(of - best, key=lambda run: (reached(run), run[-1])) for of in runs]
            yield f"{name}, {kind}", np.array(chosen), n_e_steps


def eigenvalue(model, data):
    """Largest of the Jacobian of an iteration of EM at its fixed point."""
    theta, step = coordinates_of([model], LOG_CHOLESKY), 1e-5
    moves = step * np.eye(theta.size).reshape(-1, *theta.shape[1:])
    ends = LOG_CHOLESKY.mixtures(theta + np.concatenate([moves, -moves]))
    ends = [model_of(Mixtures(*parts)) for parts in zip(*ends, strict=True)]
    after = coordinates_of([batch_step(end, data)[0] for end in ends], LOG_CHOLESKY)
    upper, lower = after.reshape(2, theta.size, theta.size)
    return np.abs(np.linalg.eigvals((upper - lower) / (2.0 * step))).max()


def main():
    arguments = _arguments()
    X = load_old_faithful()
    units = {"standardised": (X - X.mean(axis=0)) / X.std(axis=0), "minutes": X}
    problems = {unit: Problem.of(rows, arguments.starts) for unit, rows in units.items()}
    paths = {unit: em(problem) for unit, problem in problems.items()}
    gaps = {unit: {} for unit in units}
    for unit, problem in problems.items():
        print(_line(unit, "to 1e-6", *SHOWN, "E-steps"))
        for name, of_starts, n_e_steps in all_methods(problem, paths[unit]):
            gaps[unit][name] = of_starts
            print(_line(name, _spread(of_starts), *_logs(of_starts), f"{n_e_steps:.1f}"))
        print(flush=True)
    problem, of_em = problems["standardised"], paths["standardised"]
    rate = eigenvalue(of_em[0][-1][0], problem.data)
    for claim, holds in (
        *of_steps(problem),
        *of_certificates(of_em),
        *of_rates(of_em, gaps["standardised"]["EM"], rate),
        *of_methods(gaps),
    ):
        print(f"{'met' if holds else 'NOT MET':>8}  {claim}")
    if arguments.plot:
        draw(gaps, paths, rate, arguments.plot)


# ------------------------------------------------------- claims, each with whether it holds


def of_steps(problem):
    error = max(slope_error(problem, p) for p in PARAMETRISATIONS.values() if p is not DUAL)
    yield f"gradients are those of central differences: {error:.0e} apart", error < 1e-7
    mu = coordinates_of(problem.starts, DUAL)
    steps = [online_step(start, problem.data, eta=1.0)[0] for start in problem.starts]
    new = mu - 0.5 * problem.evaluate(DUAL, mu)[1]
    error = np.abs(new - coordinates_of(steps, DUAL)).max()
    yield f"natural gradients are the library's online steps: {error:.0e} apart", error < 1e-12


def slope_error(problem, parametrisation):
    """Greatest error of slopes along random directions, by the gradient's length."""
    theta = coordinates_of(problem.starts, parametrisation)
    towards = 1e-6 * np.random.default_rng(0).standard_normal(theta.shape)
    ahead, behind = (problem.evaluate(parametrisation, theta + d)[0] for d in (towards, -towards))
    gradient = problem.evaluate(parametrisation, theta)[1]
    error = 0.5 * (ahead - behind) - (gradient * towards).sum(axis=(1, 2))
    return (np.abs(error) / np.linalg.norm(gradient, axis=(1, 2))).max() / 1e-6


def of_certificates(paths):
    found = [certificate for path in paths for _, certificate in path]
    least = min(c.gain - c.certificate for c in found if c.certificate > SETTLED)
    yield f"gain less certificate, while that is above {SETTLED:.0e}: {least:.0e}", least >= 0.0
    least = min(c.gain - c.certificate for c in found)
    yield f"gain less certificate, to rounding of all steps: {least:.0e}", least >= -NOISE
    share = max((least / bound).max() for least, bound in map(least_and_bound, paths))
    yield f"least certificate by (L_1 - L*) / T, greatest: {share:.2f}", share <= 1.0
    ratios = [c.ratio for c in found if SETTLED < c.certificate < REACHED]
    holds = 0.99 <= min(ratios) and max(ratios) <= 1.01
    yield f"certificate by natural decrement: {min(ratios):.3f} to {max(ratios):.3f}", holds


def least_and_bound(path):
    """The least certificate of the first 1, ..., T iterations, and its bound."""
    levels = np.array([found.log_likelihood for _, found in path])
    certificates = np.array([found.certificate for _, found in path[:-1]])
    bound = (levels.max() - levels[0]) / np.arange(1, T + 1)
    return np.minimum.accumulate(certificates), bound


def of_rates(paths, gaps, rate):
    of_loss, of_parameters = [], []
    for path, gap in zip(paths, gaps, strict=True):
        t = np.flatnonzero(gap > SETTLED)[-1]
        theta = coordinates_of([path[i][0] for i in (t - 1, t, -1)], LOG_CHOLESKY)
        before, after = np.linalg.norm(theta[:2] - theta[2], axis=(1, 2))
        of_loss.append(gap[t] / gap[t - 1])
        of_parameters.append(after / before)
    for name, found, power in (("parameters", of_parameters, 1), ("loss", of_loss, 2)):
        contraction, foreseen = np.median(found), rate**power
        holds = abs(contraction / foreseen - 1.0) <= 0.02
        yield f"contraction of EM's {name}: {contraction:.5f}, foreseen {foreseen:.5f}", holds


def of_methods(gaps):
    """Claims of the comparison; gradient descent is all but the first two names of each unit."""
    apart = np.abs(gaps["standardised"]["EM"] - gaps["minutes"]["EM"]).max()
    yield f"EM in both units: {apart:.0e} apart", apart < 1e-9
    for kind in KINDS:
        names = [f"{name}, {kind}" for name, p in PARAMETRISATIONS.items() if p is not DUAL]
        ends = [[_logs(of_unit[name])[-1] for of_unit in gaps.values()] for name in names]
        differ = all(one != other for one, other in ends)
        texts = "; ".join(" and ".join(pair) for pair in ends)
        yield f"gradient descent, {kind} steps, is not the same: {texts}", differ
        for unit, of_unit in gaps.items():
            of_em = [reached(run) for run in of_unit["EM"]]
            of_rivals = [[reached(run) for run in of_unit[name]] for name in names]
            n_won, n = np.less(of_em, of_rivals).sum(), np.size(of_rivals)
            claim = f"EM reaches 1e-6 before gradient descent, {kind} steps, {unit}"
            yield f"{claim}: {n_won} of {n} runs", n_won == n


def draw(gaps, paths, rate, path):
    """Gaps of all methods by iteration, with the certificates, the bound and the rate of EM."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(12, 5), sharey=True, layout="constrained")
    times = np.arange(T + 1)
    for ax, (unit, of_unit) in zip(axes, gaps.items(), strict=True):
        for i, name in enumerate(PARAMETRISATIONS):
            for kind, style in zip(KINDS, ("--", "-"), strict=True):
                median = np.median(of_unit[f"{name}, {kind}"], axis=0)
                ax.plot(times, median, f"C{i}{style}", label=f"{name}, {kind}")
        of_em = np.median(of_unit["EM"], axis=0)
        ax.plot(times, of_em, "k", linewidth=4, label="EM")
        t = int(reached(of_em))
        ax.plot(times[t:], of_em[t] * rate ** (2.0 * (times[t:] - t)), "y:", label="local rate")
        both = np.median([least_and_bound(of_start) for of_start in paths[unit]], axis=0)
        ax.plot(times[1:], both[0], "0.6", label="EM's least certificate")
        ax.plot(times[1:], both[1], "0.6", linestyle="--", label="its bound, corollary 2")
        ax.set(title=unit, xlabel="iteration", xscale="symlog", yscale="log", ylim=(1e-13, 5.0))
    axes[0].set_ylabel("L - L*, nats per row, median of starts")
    axes[1].legend(fontsize="small")
    figure.savefig(path, dpi=150)


def _logs(gaps):
    medians = np.median(gaps[:, SHOWN], axis=0)
    return [f"{np.log10(max(gap, NOISE)):.1f}" for gap in medians]


def _spread(gaps):
    """Median, least and greatest number of iterations."""
    found = [reached(run) for run in gaps]
    shown = [f"{n:.0f}" if n <= T else f"> {T}" for n in (np.median(found), min(found), max(found))]
    return "{} [{}, {}]".format(*shown)


def _line(name, spread, *values):
    return f"{name:<28}{spread:>20}" + "".join(f"{value:>9}" for value in values)


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--plot", metavar="FILE", help="to write (needs matplotlib)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
