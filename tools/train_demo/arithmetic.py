"""Sums of up to three digits with the working in the thinking block, and word problems over them."""

import words
from exchange import check_equals, check_number, simple

PLACES = ("ones", "tens", "hundreds", "thousands")


def digits(number):  # lowest first
    return [int(c) for c in reversed(str(number))]


def adding(a, b):
    """347 + 85: ones 7 + 5 = 12, tens 4 + 8 + 1 = 13, hundreds 3 + 0 + 1 = 4, so 432."""
    left, right, carry, steps = digits(a), digits(b), 0, []
    for i in range(max(len(left), len(right))):
        x, y = (d[i] if i < len(d) else 0 for d in (left, right))
        steps.append(f"{PLACES[i]} {x} + {y}{' + 1' if carry else ''} = {x + y + carry}")
        carry = (x + y + carry) // 10
    return f"{a} + {b}: {', '.join(steps)}, so {a + b}."


def subtracting(a, b):
    """452 - 87: ones 2 - 7 borrow 12 - 7 = 5, tens 5 - 8 - 1 borrow 15 - 8 - 1 = 6, ... so 365. For a >= b."""
    left, right, borrow, steps = digits(a), digits(b), 0, []
    for i, x in enumerate(left):
        y = right[i] if i < len(right) else 0
        less = " - 1" if borrow else ""
        if x - y - borrow < 0:
            steps.append(f"{PLACES[i]} {x} - {y}{less} borrow {x + 10} - {y}{less} = {x + 10 - y - borrow}")
            borrow = 1
        else:
            steps.append(f"{PLACES[i]} {x} - {y}{less} = {x - y - borrow}")
            borrow = 0
    return f"{a} - {b}: {', '.join(steps)}, so {a - b}."


def difference(a, b):
    """subtracting(), also where the result is negative."""
    if a >= b:
        return subtracting(a, b)
    return f"{a} is less than {b}. {subtracting(b, a)} Negative, so {a - b}."


def multiplying(a, b):
    """By parts: 47 * 6: 7 * 6 = 42, 40 * 6 = 240, 240 + 42 = 282, so 282. b is one digit or 10 to 19."""
    if b >= 10:
        if b == 10 or a < 10:
            return f"{a} * {b} = {a * b}."
        return (f"{a} * {b} is {a} * 10 + {a} * {b - 10}. {a} * 10 = {a * 10}. {multiplying(a, b - 10)} "
                f"{adding(a * 10, a * (b - 10))}")
    if a < 10 or b < 2:
        return f"{a} * {b} = {a * b}."
    steps, total = [], 0
    for i, digit in enumerate(digits(a)):
        if digit == 0:
            continue
        part = digit * 10 ** i
        steps.append(f"{part} * {b} = {part * b}")
        if total:
            steps.append(f"{part * b} + {total} = {part * b + total}")
        total += part * b
    return f"{a} * {b}: {', '.join(steps)}, so {total}."


def number(source):
    """Mostly two digits."""
    return source.integer(*source.pick(((0, 9), (10, 99), (10, 99), (100, 999))))


def pair(source, op, make):
    return source.unseen(op, make)


def ask(source, expression, spoken):
    return source.spin(source.pick((
        "[What is|What's|How much is|Compute|Calculate|Work out] [{e}|{e}|{s}][?|]",
        "{e}[ =| = ?|]",
        "[Please |Can you |]add it up: {e}" if "+" in expression else "[Please |Can you |]compute {e}[.|?]",
        "[Tell me|Give me|I need] [{e}|{s}].",
        "[Hi, |Hello, |]what is [{e}|{s}]?")), e=expression, s=spoken)


def squeeze(source, expression):
    return expression.replace(" ", "") if source.chance(0.2) else expression


def addition(source):
    a, b = pair(source, "+", lambda: (number(source), number(source)))
    question = ask(source, squeeze(source, f"{a} + {b}"), source.spin("[{a} plus {b}|the sum of {a} and {b}]", a=a, b=b))
    return simple("arithmetic", "add", question, adding(a, b), f"{a} + {b} = {a + b}.", check_number(a + b))


def subtraction(source):
    def make():
        a, b = number(source), number(source)
        return (a, b) if a >= b or source.chance(0.15) else (b, a)
    a, b = pair(source, "-", make)
    question = ask(source, squeeze(source, f"{a} - {b}"),
                   source.spin("[{a} minus {b}|the difference of {a} and {b}]", a=a, b=b))
    return simple("arithmetic", "subtract", question, difference(a, b), f"{a} - {b} = {a - b}.", check_number(a - b))


def multiplication(source):
    def make():
        low, high, other = source.pick(((2, 9, 9), (10, 99, 9), (10, 99, 9), (100, 999, 9), (10, 99, 19)))
        return source.integer(low, high), source.integer(2 if other < 10 else 10, other)
    a, b = pair(source, "*", make)
    first, second = (b, a) if source.chance(0.2) else (a, b)
    sign = source.pick(("*", "*", "x"))
    question = ask(source, squeeze(source, f"{first} {sign} {second}"),
                   source.spin("[{a} times {b}|the product of {a} and {b}]", a=first, b=second))
    return simple("arithmetic", "multiply", question, multiplying(a, b), f"{first} * {second} = {a * b}.",
                  check_number(a * b))


def division(source):
    a, b = pair(source, "/", lambda: (source.integer(2, 12), source.integer(2, 9)))
    question = ask(source, squeeze(source, f"{a * b} / {b}"), f"{a * b} divided by {b}")
    return simple("arithmetic", "divide", question, f"{b} * {a} = {a * b}, so {a}.", f"{a * b} / {b} = {a}.",
                  check_number(a))


def chain(source):
    """a + b - c, a * b + c, a - b + c."""
    kind = source.integer(0, 2)

    def make():
        x, y, z = (source.integer(2, 99) for _ in range(3))
        return ((x, y, z), (x, y % 8 + 2, z), (max(x, y), min(x, y), z))[kind]
    a, b, c = source.unseen(f"chain{kind}", make)
    if kind == 0:
        expression, first, result = f"{a} + {b} - {c}", a + b, a + b - c
        working = f"{adding(a, b)} {difference(first, c)}"
    elif kind == 1:
        expression, first, result = f"{a} * {b} + {c}", a * b, a * b + c
        working = f"{multiplying(a, b)} {adding(first, c)}"
    else:
        expression, first, result = f"{a} - {b} + {c}", a - b, a - b + c
        working = f"{subtracting(a, b)} {adding(first, c)}"
    return simple("arithmetic", "chain", ask(source, squeeze(source, expression), expression), working,
                  f"{expression} = {result}.", check_number(result))


def order(source):
    numbers = source.unseen("order", lambda: tuple(source.integer(1, 99) for _ in range(source.integer(2, 4))))
    if len(set(numbers)) < len(numbers):
        return order(source)
    kind = source.pick(("largest", "smallest", "sort"))
    listed = words.listing(numbers, source.pick(("and", "or")))
    ranked = sorted(numbers)
    shown = ", ".join(map(str, ranked))
    if kind == "sort":
        question = source.spin("[Sort|Please sort|Put in order|Order] [these numbers: |the numbers |]{l}.", l=listed)
        return simple("arithmetic", "order", question, f"From small to large: {shown}.", shown, check_equals(shown, shown + "."),
                      direct=True)
    value = ranked[-1] if kind == "largest" else ranked[0]
    name = source.pick({"largest": ("largest", "biggest", "greatest", "highest"),
                        "smallest": ("smallest", "lowest", "least")}[kind])
    question = source.spin("[Which|Which number|What] is [the |]{n}[: | of |, ]{l}?", n=name, l=listed)
    return simple("arithmetic", "order", question, f"From small to large: {shown}. The {kind} is {value}.",
                  f"The {kind} is {value}.", check_number(value))


STORIES = {  # template, what the answer counts; {a} and {b} are the numbers
    "+": ("{n} has {a} {t}s and [buys|gets|finds] {b} more. How many {t}s does {n} have[ now|]?",
          "There are {a} {t}s [in|on] the {r} and {b} {t}s in the {q}. How many {t}s [are there|are there in all|in total]?",
          "{n} [read|wrote|sold] {a} {t}s on {d} and {b} {t}s on {e}. How many [in all|in total|altogether]?",
          "A {t} costs {a} euros and a {u} costs {b} euros. What do both cost[ together|]?"),
    "-": ("{n} has {a} {t}s and [loses|sells|gives away] {b}[ of them|]. How many [are left|{t}s are left|remain]?",
          "There were {a} {t}s in the {r}. {n} took {b}. How many are [left|there now]?",
          "{n} had {a} euros and spent {b}. How [many euros are|much is] left?",
          "{n} is {a} years old and {m} is {b}. What is the difference?"),
    "*": ("{n} buys {b} [boxes|bags] with {a} {t}s each. How many {t}s [is that|are there]?",
          "[One|A] {t} costs {a} euros. What do {b} {t}s cost?",
          "There are {b} rooms with {a} {t}s [each|in each]. How many {t}s [in all|are there]?"),
}


def story(source):
    op = source.pick("++--*")

    def make():
        x, y = source.integer(2, 99), source.integer(2, 99)
        return {"+": (x, y), "*": (x, y % 8 + 2), "-": (max(x, y), min(x, y))}[op]
    a, b = source.unseen("story" + op, make)
    result = {"+": a + b, "-": a - b, "*": a * b}[op]
    working = {"+": adding, "-": subtracting, "*": multiplying}[op](a, b)
    thing = source.pick(words.THINGS)
    question = source.spin(source.pick(STORIES[op]), a=a, b=b, n=words.first_name(source), m=words.first_name(source),
                           t=thing, u=source.pick(words.THINGS), r=source.pick(words.ROOMS), q=source.pick(words.ROOMS),
                           d=source.pick(words.WEEKDAYS), e=source.pick(words.WEEKDAYS))
    return simple("arithmetic", "story", question, f"{a} {op} {b}. {working}", f"The answer is {result}.", check_number(result))


PARTS = {addition: 5, subtraction: 5, multiplication: 5, division: 2, chain: 3, order: 2, story: 4}


def make(source):
    return source.weighted(PARTS)(source)
