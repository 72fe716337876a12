"""Exercises in prealgebra, number theory, and counting and probability."""

from collections import Counter
from fractions import Fraction
from math import factorial, gcd

from expbench.mini.drawing import Draw
from expbench.mini.exercises import Exercise, Topic
from expbench.mini.latex import fraction


def order_of_operations(d: Draw) -> Exercise:
    """An integer."""
    a, b, c = d.number(2, 9), d.number(2, 6), d.number(2, 6)
    return Exercise(
        problem=rf"What is the value of ${a} + {b} \cdot {c}$?",
        solution=rf"We multiply before we add, and ${b} \cdot {c} = {b * c}$. "
        rf"So ${a} + {b} \cdot {c} = {a} + {b * c} = @$.",
        answer=str(a + b * c),
    )


def part_of_number(d: Draw) -> Exercise:
    """An integer."""
    top, bottom = d.pick((2, 3), (3, 4), (2, 5), (3, 5), (4, 5))
    k = d.number(2, 6)
    return Exercise(
        problem=rf"What is $\frac{{{top}}}{{{bottom}}}$ of ${bottom * k}$?",
        solution=rf"Since ${bottom * k} \div {bottom} = {k}$, the answer is "
        rf"${top} \cdot {k} = @$.",
        answer=str(top * k),
    )


def lowest_terms(d: Draw) -> Exercise:
    """A fraction."""
    top, bottom = d.pick((2, 3), (3, 4), (2, 5), (3, 5), (4, 5), (5, 6), (3, 7))
    k = d.number(3, 9)
    return Exercise(
        problem=rf"Write $\frac{{{k * top}}}{{{k * bottom}}}$ as a fraction in lowest terms.",
        solution=f"The greatest common divisor of ${k * top}$ and ${k * bottom}$ is ${k}$. "
        f"Dividing the numerator and the denominator by ${k}$ gives $@$.",
        answer=fraction(Fraction(top, bottom)),
    )


def percentage(d: Draw) -> Exercise:
    """An integer."""
    percent, whole = d.pick(10, 20, 25, 50, 75), d.number(20, 200, 20)
    return Exercise(
        problem=rf"What is ${percent}\%$ of ${whole}$?",
        solution=rf"Since ${percent}\% = \frac{{{percent}}}{{100}}$, the answer is "
        rf"$\frac{{{percent}}}{{100}} \cdot {whole} = @$.",
        answer=str(percent * whole // 100),
    )


def remainder(d: Draw) -> Exercise:
    """An integer."""
    divisor, quotient = d.number(4, 9), d.number(3, 9)
    rest = d.number(1, divisor - 1)
    number = divisor * quotient + rest
    return Exercise(
        problem=f"What is the remainder when ${number}$ is divided by ${divisor}$?",
        solution=f"The largest multiple of ${divisor}$ that is not greater than ${number}$ is "
        rf"${divisor} \cdot {quotient} = {number - rest}$, and ${number} - {number - rest} = @$.",
        answer=str(rest),
    )


_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def weekday(d: Draw) -> Exercise:
    """A word."""
    today, weeks, rest = d.pick(*range(7)), d.number(5, 14), d.pick(2, 3, 4, 5, 6)
    days = 7 * weeks + rest
    return Exercise(
        problem=f"Today is {_DAYS[today]}. What day of the week will it be in ${days}$ days?",
        solution=rf"Weekdays repeat every $7$ days, and ${days} = 7 \cdot {weeks} + {rest}$. "
        f"So it will be the day of the week that comes ${rest}$ days after {_DAYS[today]}, "
        "which is $@$.",
        answer=rf"\text{{{_DAYS[(today + rest) % 7]}}}",
    )


def units_digit(d: Draw) -> Exercise:
    """An integer."""
    base, exponent = d.pick(2, 3, 7, 8), d.number(50, 250)
    cycle = [pow(base, k, 10) for k in range(1, 5)]
    quotient, rest = divmod(exponent, 4)
    divided = rf"{exponent} = 4 \cdot {quotient}" + (f" + {rest}" if rest else "")
    return Exercise(
        problem=f"What is the units digit of ${base}^{{{exponent}}}$?",
        solution=f"The units digits of ${base}^1, {base}^2, {base}^3, {base}^4$ are "
        f"${', '.join(map(str, cycle))}$, and then they repeat with period $4$. "
        f"Since ${divided}$, the answer is the units digit of ${base}^{rest or 4}$, which is $@$.",
        answer=str(pow(base, exponent, 10)),
    )


def congruences(d: Draw) -> Exercise:
    """An integer: the Chinese remainder theorem."""
    a, b, c = d.pick((3, 5, 7), (4, 5, 7), (5, 7, 8), (3, 7, 8), (4, 7, 9))
    number = d.number(c + 2, a * b * c - 1)
    # A remainder of zero would make the sentence odd.
    while not (number % a and number % b and number % c):
        number += 1
    steps, first = divmod(number, a * b)
    return Exercise(
        problem=f"Find the smallest positive integer that leaves a remainder of ${number % a}$ "
        f"when divided by ${a}$, a remainder of ${number % b}$ when divided by ${b}$, and a "
        f"remainder of ${number % c}$ when divided by ${c}$.",
        solution=f"The smallest positive integer that meets the first two conditions is ${first}$. "
        f"All others are ${first} + {a * b}k$ for a positive integer $k$. When divided by ${c}$, "
        f"the number ${first}$ leaves ${first % c}$, and each step of ${a * b}$ adds "
        f"${a * b % c}$. We need a remainder of ${number % c}$, which first happens at "
        rf"$k = {steps}$. So the answer is ${first} + {a * b} \cdot {steps} = @$.",
        answer=str(number),
    )


def one_marble(d: Draw) -> Exercise:
    """A fraction."""
    first, second = d.pick(("red", "blue"), ("green", "white"), ("black", "yellow"))
    some, others = d.number(2, 6), d.number(3, 9)
    chance = Fraction(some, some + others)
    reduced = "" if gcd(some, others) == 1 else rf"\frac{{{some}}}{{{some + others}}} = "
    return Exercise(
        problem=f"A bag contains ${some}$ {first} marbles and ${others}$ {second} marbles. One "
        f"marble is drawn at random. What is the probability that it is {first}? Express your "
        "answer as a common fraction.",
        solution=f"There are ${some} + {others} = {some + others}$ marbles, all equally likely, "
        f"and ${some}$ of them are {first}. So the probability is ${reduced}@$.",
        answer=fraction(chance),
    )


def two_cards(d: Draw) -> Exercise:
    """A fraction."""
    shape, other = d.pick(("a star", "a moon"), ("a fox", "an owl"), ("an oak", "a birch"))
    some, others = d.number(3, 6), d.number(2, 6)
    total = some + others
    return Exercise(
        problem=f"Of ${total}$ cards, ${some}$ show {shape} and ${others}$ show {other}. Two of "
        "the cards are drawn at random without replacement. What is the probability that both "
        f"show {shape}? Express your answer as a common fraction.",
        solution=rf"The first card shows {shape} with probability $\frac{{{some}}}{{{total}}}$. "
        f"Then ${some - 1}$ of the remaining ${total - 1}$ cards show {shape}. So the probability "
        rf"is $\frac{{{some}}}{{{total}}} \cdot \frac{{{some - 1}}}{{{total - 1}}} = @$.",
        answer=fraction(Fraction(some * (some - 1), total * (total - 1))),
    )


_TIMES = {2: "twice", 3: "three times"}


def arrangements(d: Draw) -> Exercise:
    """An integer: permutations with repeated letters."""
    word = d.pick("COCOA", "TOMATO", "BAOBAB", "COFFEE")
    repeated = {letter: n for letter, n in Counter(word).items() if n > 1}
    listed = " and ".join(f"{letter} occurs {_TIMES[n]}" for letter, n in repeated.items())
    ways = factorial(len(word))
    for n in repeated.values():
        ways //= factorial(n)
    below = r" \cdot ".join(f"{n}!" for n in repeated.values())
    return Exercise(
        problem=f"In how many different orders can the letters of the word {word} be written?",
        solution=f"The word has ${len(word)}$ letters; {listed}. Swapping equal letters changes "
        rf"nothing, so there are $\frac{{{len(word)}!}}{{{below}}} = @$ different orders.",
        answer=str(ways),
    )


def neither_multiple(d: Draw) -> Exercise:
    """An integer: inclusion and exclusion."""
    a, b = d.pick((2, 5), (3, 4), (3, 5), (4, 7), (5, 6))
    top = d.number(60, 200, 10)
    only_a, only_b, both = top // a, top // b, top // (a * b)
    return Exercise(
        problem=f"How many integers from $1$ to ${top}$, inclusive, are divisible by neither ${a}$ "
        f"nor ${b}$?",
        solution=f"There are ${only_a}$ multiples of ${a}$ and ${only_b}$ multiples of ${b}$. "
        f"Since ${a}$ and ${b}$ have no common factor, the numbers counted twice are the ${both}$ "
        f"multiples of ${a * b}$. So ${only_a} + {only_b} - {both} = {only_a + only_b - both}$ "
        f"integers are divisible by at least one of the two, and "
        f"${top} - {only_a + only_b - both} = @$ are divisible by neither.",
        answer=str(top - only_a - only_b + both),
    )


NUMBER_TOPICS = (
    Topic(subject="Prealgebra", level=1, template=order_of_operations),
    Topic(subject="Prealgebra", level=1, template=part_of_number),
    Topic(subject="Prealgebra", level=1, template=lowest_terms),
    Topic(subject="Prealgebra", level=1, template=percentage),
    Topic(subject="Number Theory", level=1, template=remainder),
    Topic(subject="Number Theory", level=2, template=weekday),
    Topic(subject="Number Theory", level=3, template=units_digit),
    Topic(subject="Number Theory", level=5, template=congruences),
    Topic(subject="Counting & Probability", level=1, template=one_marble),
    Topic(subject="Counting & Probability", level=3, template=two_cards),
    Topic(subject="Counting & Probability", level=4, template=arrangements),
    Topic(subject="Counting & Probability", level=5, template=neither_multiple),
)
