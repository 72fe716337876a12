"""Word problems of two steps."""

from expbench.mini.drawing import Draw
from expbench.mini.stories import Story, Template, calc


def market(d: Draw) -> Story:
    """Multiply, then add."""
    p = d.person()
    one, many, other = d.pick(
        ("mango", "mangoes", "melon"),
        ("pear", "pears", "pumpkin"),
        ("peach", "peaches", "pineapple"),
        ("lemon", "lemons", "cabbage"),
    )
    price, dear, count = d.number(2, 4), d.number(5, 9), d.number(3, 8)
    return Story(
        question=f"At a market stall, a {one} costs ${price} and a {other} costs ${dear}. "
        f"{p.name} buys {count} {many} and one {other}. How many dollars does {p.he} spend?",
        steps=(
            f"The {many} cost {calc('*', count, price, unit='$')}.",
            f"With the {other}, {p.name} spends {calc('+', count * price, dear, unit='$')}.",
        ),
        answer=count * price + dear,
    )


def notebook(d: Draw) -> Story:
    """Multiply, then take away."""
    p, book = d.person(), d.pick("sketchbook", "diary", "photo album", "stamp album")
    pages, daily, days = d.number(40, 100, 20), d.number(2, 6), d.number(3, 6)
    return Story(
        question=f"A {book} has {pages} pages. {p.name} fills {daily} pages a day for {days} days. "
        "How many pages are still empty?",
        steps=(
            f"{p.name} fills {calc('*', daily, days)} pages.",
            f"So {calc('-', pages, daily * days)} pages are still empty.",
        ),
        answer=pages - daily * days,
    )


def crafts(d: Draw) -> Story:
    """Multiply, then compare."""
    p, thing = d.person(), d.pick("paper cranes", "clay beads", "felt badges", "origami frogs")
    first, times = d.number(4, 12), d.number(3, 5)
    return Story(
        question=f"{p.name} makes {first} {thing} on Saturday and {times} times as many on Sunday. "
        f"How many more {thing} does {p.he} make on Sunday than on Saturday?",
        steps=(
            f"On Sunday {p.name} makes {calc('*', times, first)} {thing}.",
            f"That is {calc('-', times * first, first)} more than on Saturday.",
        ),
        answer=(times - 1) * first,
    )


def sharing(d: Draw) -> Story:
    """Add, then divide."""
    p, relative = d.person(), d.pick("uncle", "aunt", "grandmother", "cousin")
    fruit, dish, dishes = d.pick(
        ("plums", "bowl", "bowls"), ("cherries", "jar", "jars"), ("walnuts", "bag", "bags")
    )
    each, count = d.number(4, 9), d.number(3, 6)
    total = each * count
    mine = d.number(5, total - 5)
    return Story(
        question=f"{p.name} picks {mine} {fruit} and {p.his} {relative} picks {total - mine} "
        f"{fruit}. They divide all of them equally among {count} {dishes}. "
        f"How many {fruit} go into each {dish}?",
        steps=(
            f"Together they pick {calc('+', mine, total - mine)} {fruit}.",
            f"Each {dish} gets {calc('/', total, count)} {fruit}.",
        ),
        answer=each,
    )


def tickets(d: Draw) -> Story:
    """Multiply, then give change."""
    p, place = d.person(), d.pick("museum", "aquarium", "planetarium", "puppet theatre")
    price, count, note = d.number(6, 12), d.number(2, 4), d.pick(50, 100)
    return Story(
        question=f"A ticket for the {place} costs ${price}. {p.name} buys {count} tickets and pays "
        f"with a ${note} note. How many dollars does {p.he} get back?",
        steps=(
            f"The tickets cost {calc('*', count, price, unit='$')}.",
            f"{p.name} gets back {calc('-', note, count * price, unit='$')}.",
        ),
        answer=note - count * price,
    )


def barrel(d: Draw) -> Story:
    """Take away, then divide."""
    tank = d.pick("rain barrel", "fish tank", "paddling pool", "water trough")
    rate, minutes, inside = d.number(4, 9), d.number(5, 12), d.number(10, 40)
    full = inside + rate * minutes
    return Story(
        question=f"A {tank} holds {full} litres and already contains {inside} litres of water. "
        f"A hose adds {rate} litres every minute. In how many minutes is the {tank} full?",
        steps=(
            f"The hose has to add {calc('-', full, inside)} litres.",
            f"That takes {calc('/', full - inside, rate)} minutes.",
        ),
        answer=minutes,
    )


def chairs(d: Draw) -> Story:
    """Multiply, then take away."""
    room = d.pick("concert hall", "school hall", "cinema", "village theatre")
    count, each, broken = d.number(6, 12), d.number(8, 15), d.number(3, 9)
    return Story(
        question=f"A {room} has {count} rows of {each} chairs. Today {broken} of the chairs are "
        "being repaired. How many chairs can be used today?",
        steps=(
            f"There are {calc('*', count, each)} chairs.",
            f"Today {calc('-', count * each, broken)} of them can be used.",
        ),
        answer=count * each - broken,
    )


def fair(d: Draw) -> Story:
    """Take a quarter, then take away."""
    seller, thing = d.pick(
        ("beekeeper", "jars of honey"),
        ("potter", "blue bowls"),
        ("cheesemaker", "wheels of cheese"),
        ("toymaker", "wooden horses"),
    )
    quarter = d.number(3, 12)
    return Story(
        question=f"A {seller} brings {4 * quarter} {thing} to a fair and sells one quarter of "
        f"them. How many {thing} are left?",
        steps=(
            f"The {seller} sells {calc('/', 4 * quarter, 4)} {thing}.",
            f"So {calc('-', 4 * quarter, quarter)} {thing} are left.",
        ),
        answer=3 * quarter,
    )


def rope(d: Draw) -> Story:
    """Divide, then take away."""
    thing = d.pick("rope", "cable", "hose", "wire")
    pieces, left, cut = d.number(3, 8), d.number(4, 10), d.number(2, 3)
    length = pieces * (left + cut)
    return Story(
        question=f"A {thing} {length} metres long is cut into {pieces} equal pieces. Then every "
        f"piece is shortened by {cut} metres. How many metres long is each piece now?",
        steps=(
            f"At first each piece is {calc('/', length, pieces)} metres long.",
            f"Now each piece is {calc('-', left + cut, cut)} metres long.",
        ),
        answer=left,
    )


def ride(d: Draw) -> Story:
    """Multiply, then add."""
    p, vehicle = d.person(), d.pick("bicycle", "tandem", "scooter", "tricycle")
    speed, hours, extra = d.number(12, 18), d.number(2, 4), d.number(5, 15)
    return Story(
        question=f"Before lunch, {p.name} rides a {vehicle} at {speed} kilometres an hour for "
        f"{hours} hours. After lunch {p.he} rides another {extra} kilometres. "
        f"How many kilometres does {p.he} ride in all?",
        steps=(
            f"Before lunch {p.name} rides {calc('*', hours, speed)} kilometres.",
            f"In all {p.he} rides {calc('+', hours * speed, extra)} kilometres.",
        ),
        answer=hours * speed + extra,
    )


def press(d: Draw) -> Story:
    """Multiply, then take away: the only template with answers over a thousand."""
    sheet = d.pick("posters", "leaflets", "maps", "calendars")
    rate, hours, spoiled = d.number(300, 600, 50), d.number(4, 9), d.number(20, 90, 10)
    return Story(
        question=f"A printing press makes {rate} {sheet} an hour. It runs for {hours} hours, and "
        f"{spoiled} of the {sheet} are spoiled. How many {sheet} are not spoiled?",
        steps=(
            f"The press makes {calc('*', hours, rate)} {sheet}.",
            f"Of these, {calc('-', hours * rate, spoiled)} are not spoiled.",
        ),
        answer=hours * rate - spoiled,
    )


TWO_STEPS: tuple[Template, ...] = (
    market,
    notebook,
    crafts,
    sharing,
    tickets,
    barrel,
    chairs,
    fair,
    rope,
    ride,
    press,
)
