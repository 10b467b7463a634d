"""What a gang loses is a maximum over its devices: the rows that say so in the integer program.

A pattern sees one device, so in the linear relaxation a gang's worker carries its share of the
loss there, and the gang the mean. The integer program has a variable ``L_x`` for the loss of a
choice x, at least the mean and at least the whole loss beside any one neighbour:

``Σ_p σ_xp y_p <= L_x`` and ``Σ_{p ∋ c} W σ_xp y_p <= L_x`` for each neighbour c,

with ``σ_xp`` the worker's share of the loss in pattern p. The second holds as it stands for a
neighbour that sits on one device at most (one job, one worker); for other patterns there is a row
for each, divided by how often the pattern can be used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from elastico_opt.formulations.columns import Patterns, slot_losses
from elastico_opt.formulations.layout import Layout
from elastico_opt.program.arrays import Floats, Ints


@dataclass(frozen=True)
class GangLosses:
    """Loss columns and their rows, over P patterns and X loss columns.

    Attributes
    ----------
    choice : (X,)
        The static column (a choice of one job with several workers) each loss belongs to.
    patterns : (R, P) sparse
        Coefficients of the patterns; every row reads ``patterns @ y - L <= 0``.
    loss : (R,)
        The loss column of each row.
    relief : (P, stages)
        What the patterns charge for these losses, which the columns charge now.
    """

    choice: Ints
    patterns: sparse.csr_array
    loss: Ints
    relief: Floats


def gang_losses(layout: Layout, patterns: Patterns, most: Floats) -> GangLosses:
    """State the losses of gangs over given patterns.

    Parameters
    ----------
    layout : Layout
    patterns : Patterns
    most : (P,)
        How often each pattern can be used.
    """
    items, shares = layout.items, slot_losses(layout, patterns)
    single = layout.class_size[items.job_class] == 1 if len(items) else np.zeros(0, dtype=bool)
    gang = items.linked & single
    pattern, slot = np.nonzero((patterns.items >= 0) & (shares > 0))
    item = patterns.items[pattern, slot]
    pattern, slot, item = (part[gang[item]] for part in (pattern, slot, item))
    share = shares[pattern, slot]
    choice, loss = np.unique(layout.link_choice[items.row[item]], return_inverse=True)
    workers = layout.program.option_workers[items.option[item]]
    neighbour = _neighbours(layout, patterns, single & ~items.linked)[pattern]
    most = most.copy()
    np.minimum.at(most, pattern, workers)  # a gang has no more workers to meet anyone with
    key = np.where(neighbour >= 0, neighbour, layout.n_classes + pattern)
    whole = workers * share / np.where(neighbour >= 0, 1.0, np.maximum(most[pattern], 1.0))
    pairs, row = np.unique(np.stack([loss, key]), axis=1, return_inverse=True)
    n = len(choice)
    relief = layout.by_stage(items.job_class[item], share, np.zeros(len(item), dtype=bool))
    relieved = np.zeros((len(patterns), layout.n_stages))
    np.add.at(relieved, pattern, relief)
    return GangLosses(
        choice=choice,
        patterns=sparse.csr_array(
            (
                np.concatenate([share, whole]),
                (np.concatenate([loss, n + row.ravel()]), np.concatenate([pattern, pattern])),
            ),
            shape=(n + pairs.shape[1], len(patterns)),
        ),
        loss=np.concatenate([np.arange(n), pairs[0]]).astype(np.int64),
        relief=relieved,
    )


def _neighbours(layout: Layout, patterns: Patterns, plain: np.ndarray) -> Ints:
    """Return per pattern the class of a resident that is one job with one worker, or -1."""
    found: Ints = np.full(len(patterns), -1, dtype=np.int64)
    for column in patterns.items.T:
        here = np.flatnonzero(column >= 0)
        here = here[plain[column[here]]]
        found[here] = layout.items.job_class[column[here]]
    return found
