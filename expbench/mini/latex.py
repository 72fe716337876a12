"""Writes numbers, polynomials and matrices in the LaTeX of a competition paper."""

from collections.abc import Sequence
from fractions import Fraction


def fraction(value: Fraction) -> str:
    r"""Write a number in lowest terms.

    >>> print(fraction(Fraction(-6, 4)), fraction(Fraction(8, 4)))
    -\frac{3}{2} 2
    """
    if value.denominator == 1:
        return str(value.numerator)
    sign = "-" if value < 0 else ""
    return rf"{sign}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"


def polynomial(coefficients: Sequence[int], variable: str = "x") -> str:
    """Write a polynomial, highest power first.

    >>> polynomial([1, -5, 0]), polynomial([-2, 1])
    ('x^2 - 5x', '-2x + 1')
    """
    text = ""
    for power, coefficient in zip(range(len(coefficients) - 1, -1, -1), coefficients, strict=True):
        if coefficient == 0:
            continue
        size = "" if abs(coefficient) == 1 and power else str(abs(coefficient))
        symbol = "" if power == 0 else variable if power == 1 else f"{variable}^{power}"
        if text:
            text += " - " if coefficient < 0 else " + "
        elif coefficient < 0:
            text = "-"
        text += size + symbol
    return text or "0"


def factor(root: int) -> str:
    """Write the linear factor with the given root.

    >>> factor(2), factor(-3), factor(0)
    ('(x - 2)', '(x + 3)', 'x')
    """
    return f"({polynomial([1, -root])})" if root else "x"


def complex_number(real: int, imaginary: int) -> str:
    """Write a complex number with both parts nonzero.

    >>> complex_number(14, -5)
    '14 - 5i'
    """
    return f"{real} {'-' if imaginary < 0 else '+'} {polynomial([abs(imaginary), 0], 'i')}"


def matrix(rows: Sequence[Sequence[int]]) -> str:
    r"""Write a matrix in round brackets.

    >>> print(matrix([[1, 2], [3, 4]]))
    \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}
    """
    body = r" \\ ".join(" & ".join(str(entry) for entry in row) for row in rows)
    return rf"\begin{{pmatrix}} {body} \end{{pmatrix}}"


def signed(value: int) -> str:
    """Write a factor of a product, in brackets if it is negative.

    >>> signed(4), signed(-4)
    ('4', '(-4)')
    """
    return f"({value})" if value < 0 else str(value)
