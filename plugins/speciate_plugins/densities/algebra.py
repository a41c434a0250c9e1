"""Linear algebra of scales, kept as rows of what the inverse lacks of the identity, or as a root of the inverse."""

import math

import numpy as np
from scipy.linalg import solve_triangular

from speciate.stages import Matrix, Vector

NOISE = 1e-14
"""Relative to the largest eigenvalue: what rounding leaves of a zero."""


def root_of_inverse(rows: Matrix) -> Matrix:
    """B from A: BᵀB = I - AᵀA. Upper triangular."""
    inverse = np.eye(rows.shape[1]) - rows.T @ rows
    try:
        root: Matrix = np.asarray(np.linalg.cholesky(inverse).T, dtype=np.float64)
    except np.linalg.LinAlgError:
        # Rounding has made a direction wider than anything: as wide as a number can say, then.
        values, vectors = np.linalg.eigh(inverse)
        root = np.linalg.qr((vectors * np.sqrt(np.maximum(values, np.finfo(np.float64).eps))).T)[1]
    return root


def axes(rows: Matrix, *, root: bool) -> tuple[Vector, Matrix]:
    """Eigenvalues, ascending, of I - AᵀA or BᵀB, where they are not 1, and eigenvectors, as rows."""
    _, values, directions = np.linalg.svd(rows, full_matrices=False)
    squares = np.square(values)
    if root:
        squares, directions = squares[::-1], directions[::-1]
    else:
        squares = 1.0 - squares
    # Nothing is a variance without end: rounding alone makes it, and its logarithm must stay a number.
    return np.maximum(squares, np.finfo(np.float64).eps), directions


def scatter(rows: Matrix, least: float, *, root: bool) -> Matrix:
    """W from A, WᵀW = Aᵀ(I - AAᵀ)⁻¹A; or from B, WᵀW = (BᵀB)⁻¹ - I. No eigenvalue of I - AAᵀ is below the least."""
    if root:
        values, vectors = np.linalg.eigh(rows.T @ rows)
        widths = 1.0 / np.maximum(values, np.finfo(np.float64).eps) - 1.0
        return np.asarray((vectors * np.sqrt(np.maximum(widths, 0.0))).T)
    values, vectors = np.linalg.eigh(np.eye(len(rows)) - rows @ rows.T)
    found: Matrix = (vectors / np.sqrt(np.maximum(values, least))).T @ rows
    return found


def scale_along(rows: Matrix, sides: Matrix, *, root: bool) -> Matrix:
    """SᵀΨS of the scale Ψ, (I - AᵀA)⁻¹ or (BᵀB)⁻¹, and the columns of S.

    SᵀS + XᵀX with RᵀX = AS for RᵀR = I - AAᵀ, in O(n²d) with n rows; or XᵀX with BᵀX = S. As sums of squares, neither
    is negative in any direction.
    """
    if root:
        across = _solve(rows.T, sides)
        return np.asarray(across.T @ across)
    across = rows @ sides
    if len(rows):  # not every version of SciPy solves no equations
        across = solve_triangular(root_of_inverse(rows.T), across, trans="T", check_finite=False)
    return np.asarray(sides.T @ sides + across.T @ across)


def _solve(matrix: Matrix, sides: Matrix) -> Matrix:
    try:
        return np.asarray(np.linalg.solve(matrix, sides), dtype=np.float64)
    except np.linalg.LinAlgError:
        # As in `root_of_inverse`: as wide as a number can say.
        left, values, right = np.linalg.svd(matrix)
        least = math.sqrt(np.finfo(np.float64).eps)
        return np.asarray(right.T @ ((left.T @ sides) / np.maximum(values, least)[:, np.newaxis]))


def spectrum(parts: Matrix, less: Vector) -> tuple[Vector, Matrix]:
    """Eigenvalues, ascending, and eigenvectors, as rows, of PᵀP - ℓℓᵀ, for ℓ in the span of P."""
    basis, triangle = np.linalg.qr(parts.T)
    seen = basis.T @ less
    values, vectors = np.linalg.eigh(triangle @ triangle.T - np.outer(seen, seen))
    return values, vectors.T @ basis.T
