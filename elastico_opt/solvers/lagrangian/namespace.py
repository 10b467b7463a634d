"""The few array operations that the price loop needs, by numpy or by torch, in float64.

The loop is written once over this interface. torch is imported only when it is chosen.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from elastico_opt.errors import InputError
from elastico_opt.program.arrays import Floats

#: An array of whichever library.
Array = Any


class Arrays(Protocol):
    """Array operations; everything else the loop does is plain operators and indexing."""

    def floats(self, values: Any) -> Array:
        """Return values as float64 where the loop runs."""
        ...

    def ints(self, values: Any) -> Array:
        """Return values as int64 where the loop runs."""
        ...

    def numpy(self, values: Array) -> Any:
        """Return values as a numpy array."""
        ...

    def multiply(self, matrix: Array, vector: Array) -> Array:
        """Return (B, n) products of (1 or B, n, m) matrices and (B, m) vectors."""
        ...

    def argmax(self, values: Array) -> Array:
        """Return where along the last axis the first maximum is."""
        ...

    def sum_rows(self, table: Array, index: Array) -> Array:
        """Return (B, m): for each b the sum of the rows of an (n, m) table at (B, k) indices."""
        ...

    def dot(self, one: Array, other: Array) -> Array:
        """Return (B,) inner products of (B, m) arrays."""
        ...

    def maximum(self, values: Array, least: float) -> Array:
        """Return values, at least `least`."""
        ...

    def where(self, condition: Array, one: Array, other: Array) -> Array:
        """Choose elementwise."""
        ...

    def all(self, condition: Array) -> bool:
        """Whether all of it holds."""
        ...


class NumpyArrays:
    """On numpy."""

    def floats(self, values: Any) -> Array:
        """Return values as float64."""
        return np.ascontiguousarray(values, dtype=np.float64)

    def ints(self, values: Any) -> Array:
        """Return values as int64."""
        return np.ascontiguousarray(values, dtype=np.int64)

    def numpy(self, values: Array) -> Any:
        """Return the array itself."""
        return np.asarray(values)

    def multiply(self, matrix: Array, vector: Array) -> Array:
        """Return the products; `matmul` is slow where the inner axis is short and B is 1."""
        if len(vector) == 1:
            return matrix[0].dot(vector[0])[None]
        return np.matmul(matrix, vector[:, :, None])[:, :, 0]

    def argmax(self, values: Array) -> Array:
        """Return the first maximum's place."""
        return values.argmax(-1)

    def sum_rows(self, table: Array, index: Array) -> Array:
        """Return the sums of the rows."""
        return table.take(index, 0).sum(1)

    def dot(self, one: Array, other: Array) -> Array:
        """Return the inner products."""
        return (one * other).sum(-1)

    def maximum(self, values: Array, least: float) -> Array:
        """Return values, at least `least`."""
        return np.maximum(values, least)

    def where(self, condition: Array, one: Array, other: Array) -> Array:
        """Choose elementwise."""
        return np.where(condition, one, other)

    def all(self, condition: Array) -> bool:
        """Whether all of it holds."""
        return bool(condition.all())


class TorchArrays:
    """On torch, on the CPU or a CUDA device."""

    def __init__(self, device: str) -> None:
        """Import torch for a device such as ``cpu`` or ``cuda:0``."""
        try:
            import torch
        except ImportError as error:
            raise InputError("arrays 'torch': install the extra 'iac' (PyTorch)") from error
        if device.startswith("cuda") and not torch.cuda.is_available():
            raise InputError(f"arrays 'torch:{device}': this machine has no usable CUDA device")
        self.torch: Any = torch
        self.device = torch.device(device)

    def floats(self, values: Any) -> Array:
        """Return values as float64 on the device."""
        return self.torch.as_tensor(values, dtype=self.torch.float64, device=self.device)

    def ints(self, values: Any) -> Array:
        """Return values as int64 on the device."""
        return self.torch.as_tensor(values, dtype=self.torch.int64, device=self.device)

    def numpy(self, values: Array) -> Any:
        """Return values as a numpy array."""
        return values.cpu().numpy()

    def multiply(self, matrix: Array, vector: Array) -> Array:
        """Return the products."""
        return self.torch.matmul(matrix, vector[:, :, None])[:, :, 0]

    def argmax(self, values: Array) -> Array:
        """Return the first maximum's place; torch's own argmax may return any."""
        top = values.amax(-1, keepdim=True)
        place = self.torch.arange(values.shape[-1], device=self.device)
        return self.where(values == top, place, values.shape[-1]).amin(-1)

    def sum_rows(self, table: Array, index: Array) -> Array:
        """Return the sums of the rows."""
        return table[index].sum(1)

    def dot(self, one: Array, other: Array) -> Array:
        """Return the inner products."""
        return (one * other).sum(-1)

    def maximum(self, values: Array, least: float) -> Array:
        """Return values, at least `least`."""
        return values.clamp(min=least)

    def where(self, condition: Array, one: Array, other: Array) -> Array:
        """Choose elementwise."""
        return self.torch.where(condition, one, other)

    def all(self, condition: Array) -> bool:
        """Whether all of it holds."""
        return bool(condition.all())


def array_library(name: str) -> Arrays:
    """Return the operations of ``numpy``, ``torch`` or ``torch:<device>``.

    Raises
    ------
    InputError
        When the name is unknown, torch is not installed, or the device is not there.
    """
    library, _, device = name.partition(":")
    if library == "torch":
        return TorchArrays(device or "cpu")
    if name != "numpy":
        raise InputError(f"arrays '{name}': choose numpy, torch or torch:<device>")
    return NumpyArrays()


__all__ = ["Array", "Arrays", "Floats", "NumpyArrays", "TorchArrays", "array_library"]
