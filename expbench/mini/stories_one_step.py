"""Word problems of one step, with tiny numbers."""

from expbench.mini.drawing import Draw
from expbench.mini.stories import Story, Template, calc


def birds(d: Draw) -> Story:
    """Take away: some of them leave."""
    bird = d.pick("ducks", "geese", "swans", "herons")
    water = d.pick("pond", "lake", "canal", "river")
    total, gone = d.number(6, 10), d.number(2, 4)
    return Story(
        question=f"There are {total} {bird} on a {water}. Then {gone} of them fly away. "
        f"How many {bird} are still on the {water}?",
        steps=(f"That leaves {calc('-', total, gone)} {bird} on the {water}.",),
        answer=total - gone,
    )


def lanterns(d: Draw) -> Story:
    """Add two groups."""
    p = d.person()
    thing = d.pick("paper lanterns", "little flags", "tin stars", "glass bells")
    door, window = d.number(2, 6), d.number(2, 6)
    return Story(
        question=f"{p.name} hangs {door} {thing} over the door and {window} over the window. "
        f"How many {thing} does {p.he} hang in all?",
        steps=(f"{p.name} hangs {calc('+', door, window)} {thing} in all.",),
        answer=door + window,
    )


def doors(d: Draw) -> Story:
    """Multiply: equal groups."""
    whole, parts, part, thing = d.pick(
        ("tram", "carriages", "carriage", "doors"),
        ("cottage", "rooms", "room", "windows"),
        ("clock shop", "shelves", "shelf", "clocks"),
        ("school", "corridors", "corridor", "lamps"),
    )
    count, each = d.number(2, 5), d.number(2, 4)
    return Story(
        question=f"A {whole} has {count} {parts}. Each {part} has {each} {thing}. "
        f"How many {thing} are there in all?",
        steps=(f"There are {calc('*', count, each)} {thing} in all.",),
        answer=count * each,
    )


def rows(d: Draw) -> Story:
    """Divide: how many groups."""
    p = d.person()
    plant = d.pick("tulip bulbs", "bean seedlings", "young leeks", "strawberry plants")
    count, each = d.number(2, 6), d.number(2, 5)
    return Story(
        question=f"{p.name} has {count * each} {plant} and plants them in rows of {each}. "
        f"How many rows does {p.he} plant?",
        steps=(f"{p.name} plants {calc('/', count * each, each)} rows.",),
        answer=count,
    )


def stairs(d: Draw) -> Story:
    """Take away: how much is left to do."""
    p = d.person()
    tower = d.pick("lighthouse", "bell tower", "windmill", "water tower")
    done, left = d.number(5, 12), d.number(3, 9)
    return Story(
        question=f"The stairs of a {tower} have {done + left} steps. {p.name} has climbed {done} "
        f"of them. How many steps does {p.he} still have to climb?",
        steps=(f"{p.name} still has to climb {calc('-', done + left, done)} steps.",),
        answer=left,
    )


def ages(d: Draw) -> Story:
    """Add: a comparison."""
    p, relative = d.person(), d.pick("sister", "brother", "cousin", "neighbour")
    age, older = d.number(4, 12), d.number(2, 6)
    return Story(
        question=f"{p.name} is {age} years old. {p.his.capitalize()} {relative} is {older} years "
        f"older. How old is {p.his} {relative}?",
        steps=(f"{p.name}'s {relative} is {calc('+', age, older)} years old.",),
        answer=age + older,
    )


def bakery(d: Draw) -> Story:
    """Halve."""
    bread = d.pick("rye loaves", "plum tarts", "cheese rolls", "almond buns")
    half = d.number(3, 10)
    return Story(
        question=f"A bakery makes {2 * half} {bread} and sells half of them before noon. "
        f"How many {bread} does it sell before noon?",
        steps=(f"The bakery sells {calc('/', 2 * half, 2)} {bread} before noon.",),
        answer=half,
    )


def prices(d: Draw) -> Story:
    """Multiply: a price and a number of things."""
    one, many = d.pick(
        ("postcard", "postcards"),
        ("pencil case", "pencil cases"),
        ("bus ticket", "bus tickets"),
        ("jar of jam", "jars of jam"),
    )
    price, count = d.number(2, 5), d.number(2, 6)
    return Story(
        question=f"One {one} costs ${price}. How many dollars do {count} {many} cost?",
        steps=(f"They cost {calc('*', count, price, unit='$')}.",),
        answer=count * price,
    )


def passengers(d: Draw) -> Story:
    """Add: some more join."""
    vehicle, stop = d.pick(
        ("ferry", "pier"), ("tour bus", "stop"), ("night train", "station"), ("tram", "stop")
    )
    before, more = d.number(5, 15), d.number(2, 9)
    return Story(
        question=f"A {vehicle} carries {before} passengers. At the next {stop}, {more} more people "
        "get on and nobody gets off. How many passengers does it carry now?",
        steps=(f"The {vehicle} now carries {calc('+', before, more)} passengers.",),
        answer=before + more,
    )


def practice(d: Draw) -> Story:
    """Multiply: a rate and a time."""
    p, instrument = d.person(), d.pick("flute", "cello", "drums", "trumpet")
    minutes, days = d.number(5, 20, 5), d.number(2, 6)
    return Story(
        question=f"{p.name} plays the {instrument} for {minutes} minutes every day. "
        f"How many minutes does {p.he} play in {days} days?",
        steps=(f"{p.name} plays for {calc('*', days, minutes)} minutes.",),
        answer=days * minutes,
    )


def temperature(d: Draw) -> Story:
    """Take away below zero: the only template with negative answers."""
    place = d.pick("Brunfjord", "Kaltbrook", "Nordhaven", "Tarnvik")
    night, fall = d.pick(-3, -2, 2, 4), d.number(5, 9)
    return Story(
        question=f"At sunset the temperature in {place} was {night + fall} degrees Celsius. By "
        f"midnight it had fallen by {fall} degrees. What was the temperature at midnight, in "
        "degrees Celsius?",
        steps=(f"At midnight it was {calc('-', night + fall, fall)} degrees Celsius.",),
        answer=night,
    )


ONE_STEP: tuple[Template, ...] = (
    birds,
    lanterns,
    doors,
    rows,
    stairs,
    ages,
    bakery,
    prices,
    passengers,
    practice,
    temperature,
)
