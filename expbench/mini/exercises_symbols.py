"""Exercises in algebra, intermediate algebra, geometry and precalculus."""

from fractions import Fraction

from expbench.mini.drawing import Draw
from expbench.mini.exercises import Exercise, Topic
from expbench.mini.latex import complex_number, factor, fraction, matrix, polynomial, signed


def linear_equation(d: Draw) -> Exercise:
    """An integer."""
    a, b, x = d.number(2, 6), d.number(1, 9), d.number(2, 9)
    return Exercise(
        problem=f"Solve for $x$: ${a}x + {b} = {a * x + b}$.",
        solution=f"Subtracting ${b}$ from both sides gives ${a}x = {a * x}$, so $x = @$.",
        answer=str(x),
    )


def function_value(d: Draw) -> Exercise:
    """An integer."""
    a, b, x = d.number(2, 5), d.number(1, 7), d.number(3, 8)
    return Exercise(
        problem=f"If $f(x) = {a}x - {b}$, what is $f({x})$?",
        solution=rf"We have $f({x}) = {a} \cdot {x} - {b} = {a * x} - {b} = @$.",
        answer=str(a * x - b),
    )


def expansion(d: Draw) -> Exercise:
    """A polynomial."""
    a, b = d.number(1, 4), -d.number(5, 9)
    return Exercise(
        problem=f"Expand the product $(x + {a})(x - {-b})$.",
        solution=f"Multiplying out gives $x^2 - {-b}x + {polynomial([a, 0])} - "
        rf"{a} \cdot {-b} = @$.",
        answer=polynomial([1, a + b, a * b]),
    )


def square_root(d: Draw) -> Exercise:
    """A radical."""
    outside, inside = d.number(2, 7), d.pick(2, 3, 5, 6, 7)
    return Exercise(
        problem=rf"Simplify $\sqrt{{{outside**2 * inside}}}$.",
        solution=rf"Since ${outside**2 * inside} = {outside}^2 \cdot {inside}$, we have "
        rf"$\sqrt{{{outside**2 * inside}}} = @$.",
        answer=rf"{outside}\sqrt{{{inside}}}",
    )


def quadratic_inequality(d: Draw) -> Exercise:
    """A closed interval."""
    low = d.number(-4, 2)
    high = low + d.number(2, 6)
    quadratic = polynomial([1, -low - high, low * high])
    return Exercise(
        problem=rf"Find all real numbers $x$ such that ${quadratic} \le 0$. Write your answer in "
        "interval notation.",
        solution=f"We factor: ${quadratic} = {factor(low)}{factor(high)}$. The graph is a parabola "
        "that opens upward, so the expression is at most zero exactly between its roots, with both "
        "roots included. The answer is $@$.",
        answer=f"[{low},{high}]",
    )


def linear_system(d: Draw) -> Exercise:
    """An ordered pair."""
    a, x, y = d.number(2, 4), d.number(3, 8), d.pick(-3, -2, -1, 1, 2, 4)
    total, difference = a * x + y, x - y
    return Exercise(
        problem=f"Find the ordered pair $(x, y)$ that satisfies ${a}x + y = {total}$ and "
        f"$x - y = {difference}$.",
        solution=f"Adding the two equations gives ${a + 1}x = {total + difference}$, so $x = {x}$. "
        f"Then $y = {total} - {a} \\cdot {x} = {y}$. The pair is $@$.",
        answer=f"({x},{y})",
    )


def cubic_roots(d: Draw) -> Exercise:
    """A list of integers."""
    r, s, t = sorted((d.pick(-1, 1), d.pick(-3, -2, 2), d.pick(3, 4, 5)))
    one = 1 if 1 in (r, s, t) else -1
    p, q = (root for root in (r, s, t) if root != one)
    cubic = polynomial([1, -(r + s + t), r * s + r * t + s * t, -r * s * t])
    return Exercise(
        problem=f"Find all roots of ${cubic}$. Enter them separated by commas.",
        solution=f"We see that $x = {one}$ is a root. Dividing by ${polynomial([1, -one])}$ leaves "
        f"${polynomial([1, -p - q, p * q])} = {factor(p)}{factor(q)}$. The roots are $@$.",
        answer=f"{r},{s},{t}",
    )


def reciprocal_sum(d: Draw) -> Exercise:
    """A fraction."""
    a, b, c = d.number(2, 4), d.pick(11, 13), d.pick(3, 4, 5)
    return Exercise(
        problem=f"Let $r$ and $s$ be the roots of ${polynomial([a, -b, c])} = 0$. Find "
        r"$\frac{1}{r} + \frac{1}{s}$.",
        solution=rf"By Vieta's formulas, $r + s = {fraction(Fraction(b, a))}$ and "
        rf"$rs = {fraction(Fraction(c, a))}$. So $\frac{{1}}{{r}} + \frac{{1}}{{s}} = "
        rf"\frac{{r + s}}{{rs}} = @$.",
        answer=fraction(Fraction(b, c)),
    )


def polynomial_remainder(d: Draw) -> Exercise:
    """An expression in x."""
    odd, even = d.number(21, 99, 2), d.number(10, 20, 2)
    a, b = d.number(2, 9), d.number(2, 9)
    return Exercise(
        problem=f"Find the remainder when $x^{{{odd}}} + {a}x^{{{even}}} + {b}x$ is divided by "
        "$x^2 - 1$.",
        solution="Modulo $x^2 - 1$ we may replace $x^2$ by $1$, so every even power of $x$ becomes "
        f"$1$ and every odd power becomes $x$. The remainder is $x + {a} + {b}x = @$.",
        answer=polynomial([b + 1, a]),
    )


def complex_product(d: Draw) -> Exercise:
    """A complex number."""
    a, b, c, e = d.number(2, 5), d.number(1, 4), d.number(1, 4), d.number(2, 5)
    if b * c == a * e:  # the product would be real
        e += 1
    return Exercise(
        problem=f"Write $({complex_number(a, b)})({complex_number(c, -e)})$ in the form "
        "$a + bi$, where $i^2 = -1$.",
        solution=f"Multiplying out gives ${a * c} - {polynomial([a * e, 0], 'i')} + "
        f"{polynomial([b * c, 0], 'i')} - {polynomial([b * e, 0, 0], 'i')}$. Since $i^2 = -1$, "
        "this is $@$.",
        answer=complex_number(a * c + b * e, b * c - a * e),
    )


def root_domain(d: Draw) -> Exercise:
    r"""An interval that goes to \infty."""
    a, start = d.number(2, 5), d.pick(-4, -3, -2, 2, 3, 5, 6)
    inside = polynomial([a, -a * start])
    return Exercise(
        problem=rf"Find the domain of the real-valued function $f(x) = \sqrt{{{inside}}}$. Write "
        "your answer in interval notation.",
        solution=rf"We need ${inside} \ge 0$, that is, ${a}x \ge {a * start}$, or $x \ge {start}$. "
        "The domain is $@$.",
        answer=rf"[{start},\infty)",
    )


def rectangle(d: Draw) -> Exercise:
    """An integer."""
    long, wide = d.number(6, 12), d.number(2, 5)
    return Exercise(
        problem=f"A rectangle is ${long}$ units long and ${wide}$ units wide. What is its area, in "
        "square units?",
        solution=rf"The area is ${long} \cdot {wide} = @$ square units.",
        answer=str(long * wide),
    )


def third_angle(d: Draw) -> Exercise:
    """An angle in degrees."""
    first, second = d.number(30, 55, 5), d.number(65, 95, 10)
    return Exercise(
        problem=rf"Two angles of a triangle measure ${first}^\circ$ and ${second}^\circ$. What is "
        "the measure of the third angle?",
        solution=r"The angles of a triangle add up to $180^\circ$, so the third angle measures "
        rf"$180^\circ - {first}^\circ - {second}^\circ = @$.",
        answer=rf"{180 - first - second}^\circ",
    )


def circle_area(d: Draw) -> Exercise:
    r"""A multiple of \pi."""
    radius = d.number(3, 12)
    return Exercise(
        problem=f"A circle has a diameter of ${2 * radius}$. What is its area? Express your answer "
        r"in terms of $\pi$.",
        solution=rf"The radius is ${radius}$, so the area is $\pi \cdot {radius}^2 = @$.",
        answer=rf"{radius**2}\pi",
    )


def hypotenuse(d: Draw) -> Exercise:
    """A radical."""
    short, long = d.pick((1, 2), (2, 3), (1, 3), (1, 4), (2, 5))
    k = d.number(2, 5)
    total = short**2 + long**2
    return Exercise(
        problem=f"The legs of a right triangle have lengths ${k * short}$ and ${k * long}$. What "
        "is the length of the hypotenuse? Express your answer in simplest radical form.",
        solution="By the Pythagorean theorem, the length of the hypotenuse is "
        rf"$\sqrt{{{k * short}^2 + {k * long}^2}} = \sqrt{{{k * k * total}}} = "
        rf"\sqrt{{{k}^2 \cdot {total}}} = @$.",
        answer=rf"{k}\sqrt{{{total}}}",
    )


def inscribed_circle(d: Draw) -> Exercise:
    r"""An expression with \pi."""
    radius = d.number(3, 9)
    return Exercise(
        problem=f"A circle is inscribed in a square with side length ${2 * radius}$. What is the "
        "area of the region that lies inside the square but outside the circle? Express your "
        r"answer in terms of $\pi$.",
        solution=f"The area of the square is ${2 * radius}^2 = {4 * radius**2}$. The radius of the "
        rf"circle is half the side length, ${radius}$, so the area of the circle is "
        rf"${radius**2}\pi$. The region has area $@$.",
        answer=rf"{4 * radius**2} - {radius**2}\pi",
    )


def dot_product(d: Draw) -> Exercise:
    """An integer."""
    a, b, c, e = d.number(1, 5), d.number(1, 5), d.number(2, 5), d.number(2, 5)
    return Exercise(
        problem=f"Find the dot product of the vectors $({a}, {b})$ and $({c}, {e})$.",
        solution=rf"The dot product is ${a} \cdot {c} + {b} \cdot {e} = {a * c} + {b * e} = @$.",
        answer=str(a * c + b * e),
    )


_SINES = {30: r"\frac{1}{2}", 45: r"\frac{\sqrt{2}}{2}", 60: r"\frac{\sqrt{3}}{2}"}


def exact_value(d: Draw) -> Exercise:
    """A fraction or a radical over 2, with its sign."""
    reference, quadrant = d.pick(30, 45, 60), d.pick(2, 3, 4)
    angle = {2: 180 - reference, 3: 180 + reference, 4: 360 - reference}[quadrant]
    function, word, positive_in = d.pick(("sin", "sine", 2), ("cos", "cosine", 4))
    size = _SINES[reference if function == "sin" else 90 - reference]
    negative = quadrant != positive_in
    return Exercise(
        problem=rf"What is the exact value of $\{function} {angle}^\circ$?",
        solution=rf"The angle ${angle}^\circ$ lies in quadrant ${quadrant}$, where the {word} is "
        rf"{'negative' if negative else 'positive'}, and its reference angle is "
        rf"${reference}^\circ$. Since $\{function} {reference}^\circ = {size}$, the answer is $@$.",
        answer=("-" if negative else "") + size,
    )


def matrix_product(d: Draw) -> Exercise:
    """A matrix."""
    a, b, c, e = d.number(1, 4), d.number(-2, 3), d.number(0, 3), d.number(1, 4)
    p, q, r, s = d.number(1, 3), d.number(0, 4), d.number(-2, 2), d.number(1, 4)
    left, right = matrix([[a, b], [c, e]]), matrix([[p, q], [r, s]])
    return Exercise(
        problem=f"Compute ${left} {right}$.",
        solution="Each entry is a row of the first matrix times a column of the second. The first "
        rf"row is ${a} \cdot {p} + {signed(b)} \cdot {signed(r)} = {a * p + b * r}$ and "
        rf"${a} \cdot {q} + {signed(b)} \cdot {s} = {a * q + b * s}$; the second row is "
        rf"${c} \cdot {p} + {e} \cdot {signed(r)} = {c * p + e * r}$ and "
        rf"${c} \cdot {q} + {e} \cdot {s} = {c * q + e * s}$. The product is $@$.",
        answer=matrix([[a * p + b * r, a * q + b * s], [c * p + e * r, c * q + e * s]]),
    )


def trigonometric_equation(d: Draw) -> Exercise:
    r"""Two multiples of \pi."""
    equation, simple, first, second = d.pick(
        (r"2\sin x = 1", r"\sin x = \frac{1}{2}", Fraction(1, 6), Fraction(5, 6)),
        (r"2\cos x = 1", r"\cos x = \frac{1}{2}", Fraction(1, 3), Fraction(5, 3)),
        (r"2\sin x + 1 = 0", r"\sin x = -\frac{1}{2}", Fraction(7, 6), Fraction(11, 6)),
        (r"2\cos x + 1 = 0", r"\cos x = -\frac{1}{2}", Fraction(2, 3), Fraction(4, 3)),
    )
    answer = ", ".join(
        rf"\frac{{{'' if x.numerator == 1 else x.numerator}\pi}}{{{x.denominator}}}"
        for x in (first, second)
    )
    return Exercise(
        problem=rf"Find all solutions of ${equation}$ with $0 \le x < 2\pi$. Enter them in "
        "radians, separated by commas.",
        solution=f"The equation is equivalent to ${simple}$. The unit circle has exactly two "
        "points for which this holds, and their angles are $@$.",
        answer=answer,
    )


SYMBOL_TOPICS = (
    Topic(subject="Algebra", level=1, template=linear_equation),
    Topic(subject="Algebra", level=1, template=function_value),
    Topic(subject="Algebra", level=2, template=expansion),
    Topic(subject="Algebra", level=2, template=square_root),
    Topic(subject="Algebra", level=3, template=quadratic_inequality),
    Topic(subject="Algebra", level=3, template=linear_system),
    Topic(subject="Intermediate Algebra", level=2, template=root_domain),
    Topic(subject="Intermediate Algebra", level=3, template=complex_product),
    Topic(subject="Intermediate Algebra", level=4, template=cubic_roots),
    Topic(subject="Intermediate Algebra", level=4, template=reciprocal_sum),
    Topic(subject="Intermediate Algebra", level=5, template=polynomial_remainder),
    Topic(subject="Geometry", level=1, template=rectangle),
    Topic(subject="Geometry", level=1, template=third_angle),
    Topic(subject="Geometry", level=2, template=circle_area),
    Topic(subject="Geometry", level=3, template=hypotenuse),
    Topic(subject="Geometry", level=4, template=inscribed_circle),
    Topic(subject="Precalculus", level=1, template=dot_product),
    Topic(subject="Precalculus", level=2, template=exact_value),
    Topic(subject="Precalculus", level=3, template=matrix_product),
    Topic(subject="Precalculus", level=4, template=trigonometric_equation),
)
