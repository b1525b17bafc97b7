"""Labels of rows and sequences, and the classes that components stand for."""

from __future__ import annotations

from numbers import Integral, Number

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.utils import ClassifierTags

from sklearn_onlineem._checks import NoStartError
from sklearn_onlineem._python import ours
from sklearn_onlineem._values import frozen
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.estimators.fitted import fitted_of
from sklearn_onlineem.estimators.learning import has_start_values
from sklearn_onlineem.estimators.parameters import estimator, parameter
from sklearn_onlineem.estimators.validation import Reader, column, is_missing

# Labels of a class, after which its component is settled; and what keeps components in their places
# where nothing else does.
_FEW, _LEAST = 10, 1e-9


@estimator
class LearnsClasses:
    """Mixin of clusterers that may learn from labels, and are classifiers then.

    Parameters
    ----------
    semi_supervised : bool, default=False
        Whether the `y` of `fit` and `partial_fit` has labels, by which the estimator is a
        classifier, see :ref:`labels`; then streams reinitialise no components. Otherwise it is
        ignored, as pipelines and searches may pass one.

    Attributes
    ----------
    classes_ : ndarray of shape (n_components,)
        With ``semi_supervised=True`` only: the labels that components stand for, in their order. 0,
        1, ... unless the first labels were others.
    """

    semi_supervised: bool = parameter(default=False, valid=["boolean"])

    _where = ("classes",)

    @property
    def _learns_labels(self):
        # Attributes and tags are read before parameters are validated.
        return isinstance(self.semi_supervised, bool | np.bool_) and bool(self.semi_supervised)

    @property
    def classes_(self) -> NDArray[np.generic]:
        known = fitted_of(self).attributes
        if not self._learns_labels:
            name = type(self).__name__
            raise AttributeError(f"{name} has classes_ only with semi_supervised=True.")
        return frozen(known.get("classes_", np.arange(self.model_.n_components)))

    def _as_classes(self, components):
        """Return the labels that components stand for, if labels are learnt."""
        classes = self._fitted.attributes.get("classes_") if self._learns_labels else None
        return components if classes is None else classes[components]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        n = self.n_components if isinstance(self.n_components, Integral) else 1
        tags.estimator_type = "classifier" if self._learns_labels else "clusterer"
        if self._learns_labels or n > 1:
            # With labels it is a classifier of as many classes as it has components.
            tags.classifier_tags = ClassifierTags(multi_class=n > 2)
        return tags


def numbered_by_labels(estimator, state, data, attributes):
    """Return a state with components in the order of classes, by the labels that came so far.

    Components that were learnt without labels get their classes by their responsibilities for
    labelled rows, until each class has had some. They stay if the user has given their places, or
    if some of them are fixed, and labels that are their numbers are no classes.
    """
    fitted, classes = estimator._fitted.attributes, attributes.get("classes_")
    is_placed = state.constants.is_known or "_names_set" in fitted or has_start_values(estimator)
    is_placed |= attributes.get("_are_components", False)
    if data.labels is None or classes is None or is_placed:
        return state
    n = len(classes)
    agreement = fitted.get("_agreement") if "classes_" in fitted else np.zeros((n, n))
    if agreement is None:
        return state
    known = np.flatnonzero(data.labels >= 0)
    if isinstance(data, Rows):
        shares = state.model.posterior(data[known])
    else:
        shares = state.model.posterior(data.unlabelled)[known]
    agreement = agreement.copy()
    np.add.at(agreement, data.labels[known], shares)
    # Where nothing is known of some classes, components stay.
    order = linear_sum_assignment(agreement + _LEAST * np.eye(n), maximize=True)[1]
    try:
        model = state.model.renumbered(order)
    except ours(ValueError):
        return state
    if attributes["_agreement"] is not None:
        attributes["_agreement"] = agreement[:, order]
    return state if (order == np.arange(n)).all() else state.with_model(model)


class ReadsLabels(Reader):
    """Base of inputs that read labels; the first ones define the classes of components."""

    def _components(self, y, n_rows, classes=None):
        """Return known components of rows as int32, -1 where unknown; None if none is known.

        `classes` are those of all labels to come. First classes are an attribute that is found.
        """
        if not self._takes_labels:
            raise ValueError("classes requires semi_supervised=True.")
        before = {} if self._fresh else self._estimator._fitted.attributes
        n_components = self._n_components
        found = known = before.get("classes_")
        agreement, are_components = before.get("_agreement"), before.get("_are_components", False)
        given, y = y, column("y", [] if y is None else y)
        if given is not None and len(y) != n_rows:
            raise ValueError(f"X has {n_rows} rows, and y {len(y)}.")
        is_settled = known is not None and classes is None and agreement is None
        if is_settled and y.dtype.kind == "i" and _are_numbers(known):
            # Most batches of a stream, quickly.
            if y.min() >= -1 and -1 < y.max() < n_components:
                return None if n_components == 1 else y.astype(np.int32)
        labels, is_known = _known("y", y)
        if classes is not None:
            found = _classes("classes", classes, n_components)
            if known is not None and not np.array_equal(found, known):
                now, first = found.tolist(), known.tolist()
                raise ValueError(f"classes are {now!s:.60}, and were {first!s:.60} at first.")
        elif known is None and len(labels):
            are_components = labels.dtype.kind in "iuf" and _are_below(labels, n_components)
            found = np.arange(n_components)
            found = found if are_components else _classes("y", labels, n_components)
        components = np.full(n_rows, -1, dtype=np.int32)
        if len(labels):
            components[is_known] = _components_of(labels, found)
        if found is not known or (len(labels) and agreement is not None):
            # As if components were those of classes, which a start makes them.
            counts = np.bincount(components[is_known], minlength=n_components)
            agreement = np.diag(counts) + (0.0 if agreement is None else agreement)
            of_classes = agreement.sum(axis=1)
            are_known = are_components or of_classes.min() >= _FEW
            agreement = None if are_known else agreement
            now = dict(classes_=found, _agreement=agreement, _are_components=are_components)
            self.attributes = {**(self.attributes or before), **now}
        if not len(labels):
            return None
        return None if n_components == 1 else components


def _known(name, labels):
    """Return the labels that are known, and which are: not -1, NaN, None or NA."""
    labels = column(name, labels)
    if labels.dtype.kind in ("O", "T"):
        values = labels.tolist()
        is_known = [not (is_missing(x) or (isinstance(x, Number) and x == -1)) for x in values]
        is_known = np.array(is_known, dtype=bool)
        labels = labels.astype(object)[is_known]
        if any(all(isinstance(x, kind) for x in labels) for kind in (Number, str)):
            labels = np.array(labels.tolist())
    else:
        is_known = labels == labels
        if labels.dtype.kind in "if":
            is_known &= labels != -1
        labels = labels[is_known]
    if labels.dtype.kind == "f" and not (np.isfinite(labels) & (labels == labels.round())).all():
        raise ValueError(f"{name} is continuous; labels are texts, whole numbers, or other names.")
    return labels, is_known


def _are_numbers(classes):
    return classes.dtype.kind == "i" and classes[0] == 0 and classes[-1] == len(classes) - 1


def _are_below(numbers, n):
    return 0 <= numbers.min() and numbers.max() < n


def _classes(name, labels, n_components):
    """Return distinct labels in order, as many as there are components."""
    known, is_known = _known(name, labels)
    if not is_known.all():
        raise ValueError(f"{name} has an entry that stands for unknown labels: -1, None or NaN.")
    try:
        classes = np.unique(known)
    except ours(TypeError):
        kinds = ", ".join(sorted({type(label).__name__ for label in known}))
        raise TypeError(f"{name} has labels that cannot be sorted, of type {kinds}.") from None
    if len(classes) != n_components:
        # Another shard may have all of them.
        kind = NoStartError if len(classes) < n_components else ValueError
        raise kind(
            f"{name} has the labels {classes.tolist()!s:.60}, and n_components={n_components}: it"
            " takes a label for each component, or numbers of known components"
            f" 0..{n_components - 1}, and -1, None or NaN where unknown. In a stream or in"
            " shards, pass all labels as classes at first."
        )
    return classes


def _components_of(labels, classes):
    """Return the components that stand for labels."""
    are_numbers = labels.dtype.kind in "iuf" and _are_numbers(classes)
    if are_numbers and _are_below(labels, len(classes)):
        return labels
    given, names = labels, classes.tolist()
    if labels.dtype.kind in "mM" and labels.dtype.kind == classes.dtype.kind:
        # Dates are equal in any unit.
        names = classes.astype(str).tolist()
        labels, classes = (
            x.astype(np.promote_types(labels.dtype, classes.dtype)) for x in (labels, classes)
        )
    distinct, places = np.unique(labels, return_inverse=True)
    components = {label: number for number, label in enumerate(classes.tolist())}
    found = [components.get(label, -1) for label in distinct.tolist()]
    if -1 in found:
        raise ValueError(
            f"y has the label {given[np.argmax(places == found.index(-1))]!s:.60}, and classes_ are"
            f" {names!s:.100}. In a stream or in shards, pass all labels as classes at first."
        )
    return np.array(found)[places]
