"""Linear algebra of scales: spectra of sums of squares, and roots of inverses."""

import numpy as np

from speciate.stages import Matrix, Vector

NOISE = 1e-14
"""Relative to the largest eigenvalue: what rounding leaves of a zero."""


def root_of_inverse(rows: Matrix) -> Matrix:
    """B from A: BᵀB = I - AᵀA."""
    inverse = np.eye(rows.shape[1]) - rows.T @ rows
    try:
        root: Matrix = np.asarray(np.linalg.cholesky(inverse).T, dtype=np.float64)
    except np.linalg.LinAlgError:
        # Rounding has made a direction wider than anything: as wide as a number can say, then.
        values, vectors = np.linalg.eigh(inverse)
        root = (vectors * np.sqrt(np.maximum(values, np.finfo(np.float64).eps))).T
    return root


def spectrum(parts: Matrix, less: Vector) -> tuple[Vector, Matrix]:
    """Eigenvalues, ascending, and eigenvectors, as rows, of PᵀP - ℓℓᵀ, for ℓ in the span of P."""
    basis, triangle = np.linalg.qr(parts.T)
    seen = basis.T @ less
    values, vectors = np.linalg.eigh(triangle @ triangle.T - np.outer(seen, seen))
    return values, vectors.T @ basis.T
