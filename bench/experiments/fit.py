"""T(b) = a + c b + d b^2, seconds of a batch of b rows: what a batch costs, what a row, and what many at once."""

import math
from dataclasses import dataclass


@dataclass
class Fit:
    a: float
    c: float
    d: float
    # Root of the mean square of the relative distances.
    residual: float

    def best(self):
        """The rows at which a row costs least; none where it never costs more again."""
        return math.sqrt(self.a / self.d) if self.a > 0 and self.d > 0 else None

    def shown(self):
        best = self.best()
        at = f"least at {best:,.0f} rows" if best else "without a least"
        terms = f"{self.a * 1e3:.3g} ms {signed(self.c * 1e6)} us b {signed(self.d * 1e9)} ns b^2"
        return f"{terms}, {at}, off by {self.residual:.0%}"


def signed(value):
    """A term behind others: `+ 2.5`, `- 0.449`."""
    return f"{'-' if value < 0 else '+'} {abs(value):.3g}"


# b^2 of 10,000 rows beside 1 is more than the numbers bear.
SCALE = 1_000


def fit(points):
    """Of (rows, seconds) by least squares of the relative distances; none of fewer than four points."""
    if len(points) < 4:
        return None
    # Each equation over its own right side, which is then 1.
    rows = [[term / seconds for term in (1, b / SCALE, (b / SCALE) ** 2)] for b, seconds in points]
    product = lambda i, j: sum(row[i] * row[j] for row in rows)
    normal = [[*(product(i, j) for j in range(3)), sum(row[i] for row in rows)] for i in range(3)]
    a, c, d = solved(normal)
    off = [1 - sum(x * y for x, y in zip(row, (a, c, d))) for row in rows]
    return Fit(a, c / SCALE, d / SCALE**2, math.sqrt(sum(x * x for x in off) / len(off)))


def solved(matrix):
    """Gauss and Jordan, the largest of each column first."""
    size = len(matrix)
    for at in range(size):
        pivot = max(range(at, size), key=lambda row: abs(matrix[row][at]))
        matrix[at], matrix[pivot] = matrix[pivot], matrix[at]
        matrix[at] = [value / matrix[at][at] for value in matrix[at]]
        for row in range(size):
            if row != at:
                factor = matrix[row][at]
                matrix[row] = [x - factor * y for x, y in zip(matrix[row], matrix[at])]
    return [row[size] for row in matrix]
