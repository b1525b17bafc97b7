"""The parameter `params`: which parameters are learnt, by letters or by masks."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from sklearn_onlineem.models.fixed import Fixed

# Parameters that say what is learnt, which a fit that goes on may change.
RELEARNT = frozenset({"params", "em_vars"})


def lettered_parts(params, letters):
    """Return whether each part is learnt, by name; `letters` learn it, and it is without any."""
    # Those of one part come first.
    joined = "".join(letters.values())
    if set(params) - set(joined):
        known = "".join(dict.fromkeys(sorted(joined, key=joined.count)))
        raise ValueError(f"params has letters other than {known!r}: {params!r}.")
    return {name: not own or not set(own).isdisjoint(params) for name, own in letters.items()}


def masked_parts(params, masks, n_components):
    """Return what is learnt of each part by name: True, False, or a mask of booleans.

    `params` has masks by names of parts, which are learnt without one. `masks` has their axes, such
    as "k" or "k kd", where "e" has one more entry than "k", and others have any length.
    """
    if not isinstance(params, Mapping):
        raise ValueError(f"params must be letters, or a dict of masks, got {params!r:.60}.")
    unknown = [name for name in params if name not in masks]
    if unknown:
        raise ValueError(f"params has the key {unknown[0]!r}; it may have {', '.join(masks)}.")
    sizes = {"k": n_components, "e": n_components + 1}
    return {
        name: _checked(
            f"params[{name!r}]", params.get(name, True),
            [tuple(map(sizes.get, axes)) for axes in kinds.split()],
        )
        for name, kinds in masks.items()
    }  # fmt: skip


def _checked(name, mask, shapes):
    if isinstance(mask, bool | np.bool):
        return bool(mask)
    mask = np.array(mask)
    fits = any(
        mask.ndim == len(shape)
        and all(n in (None, own) for n, own in zip(shape, mask.shape, strict=True))
        for shape in shapes
    )
    if mask.dtype != bool or not fits:
        texts = [str(shape).replace("None", "n_features") for shape in shapes]
        masks = f", or an array of booleans of shape {' or '.join(texts)}" if shapes else ""
        raise ValueError(
            f"{name} must be True or False{masks}, True where an entry is learnt; got shape"
            f" {mask.shape} of {mask.dtype}."
        )
    return mask


def masks_of_means(estimator):
    """Return the axes of masks of means of Gaussians."""
    return "k kd" if estimator.covariance_type in ("diag", "spherical") else "k"


def masks_of_covariances(estimator):
    """Return the axes of masks of their covariances; shared ones are learnt or not."""
    return "" if estimator.covariance_type == "tied" else "k"


def learnt_gaussians(learnt, covariances, of_components):
    """Return what Gaussian families take: masks of means, (K, 1) or (K, d), and of covariances.

    `covariances` and `of_components` are names of parts. What fixes all of a component fixes its
    mean, about which covariances are then learnt; a shared covariance is no component's.
    """
    means, spread, whole = learnt["means"], learnt[covariances], learnt[of_components]
    if isinstance(means, np.ndarray) and means.ndim == 1:
        means = means[:, None]
    if isinstance(whole, np.ndarray):
        return means & whole[:, None], spread
    return means, spread


def fixed_entries(n_components, **learnt):
    """Return the entries that are fixed, as models take them, or None if all are learnt.

    Masks are of what is learnt, of the shapes of `Fixed`; True is all, False no component.
    """
    every = np.ones(n_components, dtype=bool)
    masks = {
        name: ~(mask if isinstance(mask, np.ndarray) else every & mask)
        for name, mask in learnt.items()
        if mask is not True
    }
    return Fixed(**masks) if masks else None


def with_masks(family, other):
    """Return a family, bound to data, with the masks of another."""
    masks = {name: mask for name, mask in vars(other).items() if name.startswith("learns_")}
    return replace(family, **masks) if masks else family
