"""Word problems of three to five steps."""

from expbench.mini.drawing import Draw
from expbench.mini.stories import Story, Template, calc


def workshop(d: Draw) -> Story:
    """Cost, income, profit."""
    p = d.person()
    stuff, extra, makes, goods = d.pick(
        ("wool", "buttons", "knits", "hats"),
        ("clay", "paint", "shapes", "mugs"),
        ("wood", "varnish", "builds", "birdhouses"),
        ("leather", "buckles", "sews", "belts"),
    )
    first, second = d.number(15, 30), d.number(3, 9)
    count, price = d.number(5, 9), d.number(12, 20)
    cost, income = first + second, count * price
    return Story(
        question=f"{p.name} spends ${first} on {stuff} and ${second} on {extra}, {makes} {count} "
        f"{goods}, and sells each of them for ${price}. How many dollars of profit does "
        f"{p.he} make?",
        steps=(
            f"{p.name} spends {calc('+', first, second, unit='$')}.",
            f"The {goods} bring in {calc('*', count, price, unit='$')}.",
            f"The profit is {calc('-', income, cost, unit='$')}.",
        ),
        answer=income - cost,
    )


def bus(d: Draw) -> Story:
    """Off, on, and half of them off."""
    vehicle, stop = d.pick(("bus", "stop"), ("boat", "pier"), ("train", "station"))
    left, off, on = d.number(8, 15), d.number(3, 5), d.number(6, 9)
    start = 2 * left + off - on
    return Story(
        question=f"A {vehicle} starts with {start} passengers. At the first {stop}, {off} of them "
        f"get off and {on} new passengers get on. At the second {stop}, half of the passengers get "
        f"off and nobody gets on. How many passengers are on the {vehicle} then?",
        steps=(
            f"When {off} people have got off, {calc('-', start, off)} are left.",
            f"When {on} have got on, there are {calc('+', start - off, on)}.",
            f"At the second {stop}, {calc('/', 2 * left, 2)} get off.",
            f"So {calc('-', 2 * left, left)} passengers are on the {vehicle} then.",
        ),
        answer=left,
    )


def savings(d: Draw) -> Story:
    """Save, double, spend."""
    p, giver = d.person(), d.pick("grandmother", "uncle", "aunt", "grandfather")
    thing = d.pick("kite", "chess set", "camping lamp", "pair of skates")
    weekly, weeks, price = d.number(4, 9), d.number(5, 8), d.number(15, 35)
    saved = weekly * weeks
    return Story(
        question=f"{p.name} saves ${weekly} a week for {weeks} weeks. Then {p.his} {giver} gives "
        f"{p.him} as much money as {p.he} has saved. With some of the money {p.he} buys a {thing} "
        f"for ${price}. How many dollars does {p.he} have left?",
        steps=(
            f"{p.name} saves {calc('*', weekly, weeks, unit='$')}.",
            f"With the gift {p.he} has {calc('+', saved, saved, unit='$')}.",
            f"After buying the {thing}, {p.he} has {calc('-', 2 * saved, price, unit='$')} left.",
        ),
        answer=2 * saved - price,
    )


def sale(d: Draw) -> Story:
    """A price cut, a number of things and a delivery fee."""
    p = d.person()
    one, many = d.pick(
        ("raincoat", "raincoats"), ("desk lamp", "desk lamps"), ("backpack", "backpacks")
    )
    percent, part, words = d.pick((10, 10, "one tenth"), (20, 5, "one fifth"), (25, 4, "a quarter"))
    price, count, fee = d.number(40, 120, 20), d.number(2, 4), d.number(5, 12)
    cut = price // part
    now = price - cut
    return Story(
        question=f"A {one} normally costs ${price}. In a sale the price is cut by {percent}%. "
        f"{p.name} buys {count} {many} at the sale price and pays ${fee} for delivery. "
        f"How many dollars does {p.he} pay in all?",
        steps=(
            f"{percent}% is {words}, so the price is cut by {calc('/', price, part, unit='$')}.",
            f"In the sale a {one} costs {calc('-', price, cut, unit='$')}.",
            f"The {many} cost {calc('*', count, now, unit='$')}.",
            f"With delivery {p.name} pays {calc('+', count * now, fee, unit='$')}.",
        ),
        answer=count * now + fee,
    )


def bottling(d: Draw) -> Story:
    """Two rates, a time, and crates."""
    thing = d.pick("bottles of juice", "jars of pickles", "cans of soup", "tubs of yoghurt")
    crate, crates_a_minute = d.pick(6, 10, 12), d.number(3, 5)
    rate = crate * crates_a_minute
    first, minutes = d.number(8, 12), d.number(4, 15)
    return Story(
        question=f"One machine fills {first} {thing} a minute and a second machine fills "
        f"{rate - first} a minute. Both run for {minutes} minutes. Everything is then packed "
        f"into crates that hold {crate} each. How many crates are needed?",
        steps=(
            f"Together the machines fill {calc('+', first, rate - first)} {thing} a minute.",
            f"In {minutes} minutes they fill {calc('*', minutes, rate)}.",
            f"These need {calc('/', minutes * rate, crate)} crates.",
        ),
        answer=minutes * crates_a_minute,
    )


def fence(d: Draw) -> Story:
    """Perimeter, number of posts, cost."""
    p, place = d.person(), d.pick("garden", "meadow", "playground", "sheep pen")
    gap, price = d.number(2, 3), d.number(3, 8)
    length, width = gap * d.number(5, 9), gap * d.number(2, 4)
    around = 2 * (length + width)
    posts = around // gap
    return Story(
        question=f"A rectangular {place} is {length} metres long and {width} metres wide. "
        f"{p.name} puts up a fence all the way around it, with a post at every corner and a "
        f"distance of {gap} metres from each post to the next. A post costs ${price}. How many "
        "dollars do the posts cost?",
        steps=(
            f"Length and width together are {calc('+', length, width)} metres.",
            f"All the way around it is {calc('*', 2, length + width)} metres.",
            f"The fence needs {calc('/', around, gap)} posts.",
            f"The posts cost {calc('*', posts, price, unit='$')}.",
        ),
        answer=posts * price,
    )


def trip(d: Draw) -> Story:
    """Add, divide into vehicles, multiply by a price."""
    many, few = d.pick(
        ("pupils", "teachers"),
        ("players", "coaches"),
        ("scouts", "leaders"),
        ("singers", "drummers"),
    )
    vehicle, vehicles = d.pick(("van", "vans"), ("minibus", "minibuses"))
    count, seats, price = d.number(3, 6), d.number(8, 9), d.number(40, 90, 5)
    people, adults = count * seats, d.number(3, 6)
    return Story(
        question=f"A group of {people - adults} {many} and {adults} {few} travels in {vehicles}. "
        f"Each {vehicle} carries {seats} people, and all of them are full. Renting one {vehicle} "
        f"costs ${price}. How many dollars does it cost to rent the {vehicles}?",
        steps=(
            f"The group has {calc('+', people - adults, adults)} people.",
            f"It needs {calc('/', people, seats)} {vehicles}.",
            f"Renting them costs {calc('*', count, price, unit='$')}.",
        ),
        answer=count * price,
    )


def training(d: Draw) -> Story:
    """A distance that grows from day to day."""
    p, move = d.person(), d.pick("run", "row", "hike", "skate")
    first, more = d.number(3, 8), d.number(2, 3)
    days = [first + k * more for k in range(4)]
    later = zip(("Tuesday", "Wednesday", "Thursday"), days[:-1], strict=True)
    return Story(
        question=f"On Monday {p.name} {move}s {first} kilometres. On each of the next three days "
        f"{p.he} {move}s {more} kilometres more than on the day before. How many kilometres does "
        f"{p.he} {move} in the four days?",
        steps=(
            *(f"On {day} {p.he} {move}s {calc('+', km, more)} kilometres." for day, km in later),
            f"In the four days {p.name} {move}s {calc('+', *days)} kilometres.",
        ),
        answer=sum(days),
    )


def soup(d: Draw) -> Story:
    """Scale a recipe and count the bags."""
    p, vegetable = d.person(), d.pick("carrots", "potatoes", "tomatoes", "parsnips")
    serves, times, bags = d.pick(4, 6), d.number(3, 6), d.number(2, 4)
    needs, bag = 2 * bags, 2 * times
    return Story(
        question=f"A soup for {serves} people needs {needs} {vegetable}. {p.name} cooks the soup "
        f"for {times * serves} people. The {vegetable} are sold in bags of {bag}. How many bags "
        f"does {p.he} need?",
        steps=(
            f"{p.name} cooks {calc('/', times * serves, serves)} times the recipe.",
            f"That needs {calc('*', times, needs)} {vegetable}.",
            f"These come in {calc('/', times * needs, bag)} bags.",
        ),
        answer=bags,
    )


def festival(d: Draw) -> Story:
    """Lengths and the breaks between them."""
    place, gives, one, many = d.pick(
        ("cinema", "shows", "film", "films"),
        ("theatre", "puts on", "play", "plays"),
        ("music club", "hosts", "concert", "concerts"),
    )
    count, length, pause = d.number(3, 5), d.number(80, 110, 5), d.number(10, 20, 5)
    shown, paused = count * length, (count - 1) * pause
    return Story(
        question=f"A {place} {gives} {count} {many} in one day. Each {one} lasts {length} minutes, "
        f"and there is a break of {pause} minutes between one {one} and the next. How many minutes "
        f"pass from the start of the first {one} to the end of the last?",
        steps=(
            f"The {many} last {calc('*', count, length)} minutes.",
            f"There are {calc('-', count, 1)} breaks.",
            f"The breaks last {calc('*', count - 1, pause)} minutes.",
            f"In all {calc('+', shown, paused)} minutes pass.",
        ),
        answer=shown + paused,
    )


LONG: tuple[Template, ...] = (
    workshop,
    bus,
    savings,
    sale,
    bottling,
    fence,
    trip,
    training,
    soup,
    festival,
)
