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
        "[What is|What's|How much is|How much are|Compute|Calculate|Work out|Solve|Evaluate|Find] [{e}|{e}|{s}][?|]",
        "{e}[ =| = ?||, please| please|?]", "[Please |Can you |Could you |]compute {e}[.|?]",
        "[Tell me|Give me|I need|I want to know|Do you know] [what {e} is|{e}|{s}].",
        "[The result of|Result of|Answer of|The value of] {e}[, please|?|]", "[Let's see|Quick question|Math|Question|Homework]: {e}[?|]",
        "I have to [compute|calculate|work out] {e}[.|. What is it?|. Help me.]",
        "[Hi, |Hello, |]what is [{e}|{s}]?")), e=expression, s=spoken)


def squeeze(source, expression):
    return expression.replace(" ", "") if source.chance(0.2) else expression


ADD_WORDS = (
    "[Add|Add up|Sum|Sum up|Please add] {a} and {b}[.|, please.|]", "[Add|Put] {a} to {b}[.|]",
    "What [do|does] {a} and {b} [make|give|add up to|come to]?", "[What number is|Which number is|What is] {b} more than {a}?",
    "[Increase|Raise] {a} by {b}[.|]", "[I have|There are|Take] {a} and {b}. What [is|'s] the [sum|total]?",
    "[Total|Sum] of {a} and {b}[?|, please|]", "{a} [and|plus] {b}[ is| are| makes| equals][?|...]")
SUBTRACT_WORDS = (
    "[Subtract|Take|Deduct|Take away] {b} from {a}[.|]", "[What is|What's|How much is] left [if|when] [I|you|we] take {b} [from|away from] {a}?",
    "{a} [less|take away|minus] {b}[?| is?| makes?]", "[What number is|Which number is|What is] {b} less than {a}?",
    "[Decrease|Reduce|Lower] {a} by {b}[.|]", "[What is|What's] the difference [between|of] {a} and {b}?",
    "[From {a} take {b}|Take {b} off {a}]. What [is left|remains]?", "How much [more|bigger] is {a} than {b}?")
MULTIPLY_WORDS = (
    "[Multiply|Please multiply] {a} [by|with] {b}[.|]", "What [is|are] {a} times {b}?", "{a} times {b}[?| is?| makes?|]",
    "[The product|Product] of {a} and {b}[?|]", "How [much|many] [is|are] {a} [groups|lots|sets] of {b}?",
    "[What do|How much do] {a} and {b} give [multiplied|when multiplied]?")


def addition(source):
    a, b = pair(source, "+", lambda: (number(source), number(source)))
    said = source.spin("[{a} plus {b}|the sum of {a} and {b}|{a} and {b} together|{a} and {b}]", a=a, b=b)
    question = ask(source, squeeze(source, f"{a} + {b}"), said)
    if source.chance(0.3):
        question = source.spin(source.pick(ADD_WORDS), a=a, b=b)
    return simple("arithmetic", "add", question, adding(a, b), f"{a} + {b} = {a + b}.", check_number(a + b))


def subtraction(source):
    def make():
        a, b = number(source), number(source)
        return (a, b) if a >= b or source.chance(0.3) else (b, a)
    a, b = pair(source, "-", make)
    question = ask(source, squeeze(source, f"{a} - {b}"),
                   source.spin("[{a} minus {b}|the difference of {a} and {b}]", a=a, b=b))
    if source.chance(0.35):
        question = source.spin(source.pick(SUBTRACT_WORDS), a=a, b=b)
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
    if source.chance(0.3):
        question = source.spin(source.pick(MULTIPLY_WORDS), a=first, b=second)
    return simple("arithmetic", "multiply", question, multiplying(a, b), f"{first} * {second} = {a * b}.",
                  check_number(a * b))


def division(source):
    a, b = pair(source, "/", lambda: (source.integer(2, 12), source.integer(2, 12)))
    question = ask(source, squeeze(source, f"{a * b} / {b}"), f"{a * b} divided by {b}")
    if source.chance(0.4):
        question = source.spin("[[Divide|Split] {p} by {b}.|How often does {b} [fit|go] into {p}?|{p} [shared|divided] by {b}[?|]|Divide {p} "
                               "[into|among] {b} [parts|people][.|]]", p=a * b, b=b)
    steps = ", ".join(f"{i} * {b} = {i * b}" for i in range(1, a + 1))
    return simple("arithmetic", "divide", question, f"{a * b} / {b}: {steps}, so {a}.", f"{a * b} / {b} = {a}.", check_number(a))


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
        question = source.spin("[[Sort|Please sort|Put in order|Order|Arrange] [these numbers: |the numbers |]{l}[.|]|{l} in order[, please|]|Sort from "
                               "[small to large|smallest to largest]: {l}|[Put|Bring] {l} in order.]", l=listed)
        return simple("arithmetic", "order", question, f"From small to large: {shown}.", shown, check_equals(shown, shown + "."),
                      direct=True)
    value = ranked[-1] if kind == "largest" else ranked[0]
    name = source.pick({"largest": ("largest", "biggest", "greatest", "highest"),
                        "smallest": ("smallest", "lowest", "least")}[kind])
    question = source.spin("[[Which|Which number|What|Which one] is [the |]{n}[: | of |, | among ]{l}?|[Give me|Tell me|Find|Name|Pick|Say] the {n} "
                           "[of|among|number of|number in|one of] {l}.|[Of|Among|From] {l}, [which|what] is [the |]{n}?|{l}: [which|what] is the "
                           "{n}[?|]|[The|What is the] {n} number of {l}[?|]]", n=name, l=listed)
    return simple("arithmetic", "order", question, f"From small to large: {shown}. The {kind} is {value}.",
                  f"The {kind} is {value}.", check_number(value))


# What the stories count; {a} and {b} are the numbers, {t} a thing, {n} and {m} names.
STORIES = {
    "+": ("{n} has {a} {t}s and [buys|gets|finds|receives] {b} more. How many {t}s does {n} have[ now|]?",
          "[There are|I see|We have] {a} {t}s [in|on] the {r} and {b} {t}s in the {q}. How many {t}s [are there|are there in all|in total|is that]?",
          "{n} [read|wrote|sold|made] {a} {t}s on {d} and {b} {t}s on {e}. How many [in all|in total|altogether]?",
          "A {t} costs {a} euros and a {u} costs {b} euros. [What do both cost|How much are both|What is the total][ together|]?",
          "[I|We] [had|owned] {a} {t}s[, then| and then| and] [I|we] [got|bought|made] {b} more. How many [now|are there now|do I have]?",
          "{n} is {a} years old. How old [is|will] {n} [be |]in {b} years?",
          "[The box|A bag|The shelf|The room] [holds|has] {a} {t}s. {n} [adds|puts in|brings] {b}[ more|]. How many [now|are there|in all]?",
          "{n} walks {a} [km|miles] and then {b} [km|miles]. How far [is that|in all|does {n} walk]?",
          "{a} {t}s and {b} {t}s, how many [is that|together|in all]?"),
    "-": ("{n} has {a} {t}s and [loses|sells|gives away|breaks] {b}[ of them|]. How many [are left|{t}s are left|remain|does {n} have now]?",
          "There were {a} {t}s in the {r}. {n} took {b}. How many are [left|there now|still there]?",
          "{n} had {a} euros and spent {b}. How [many euros are|much is] left?",
          "{n} is {a} years old and {m} is {b}. [What is the difference|How much older is {n}]?",
          "[Of|From] {a} {t}s, {b} are [broken|gone|sold]. How many [are left|remain|are not]?",
          "[I|We] [had|started with] {a} {t}s[, then| and] [I|we] [lost|gave away|used|ate] {b}. [What remains|How many are left|How many remain]?",
          "[The train|A bus|The room] has {a} [people|seats]. {b} [leave|are taken]. How many [remain|are left]?",
          "[A|The] {t} [costs|cost] {a} euros, now it is {b} euros cheaper. What does it cost[ now|]?"),
    "*": ("{n} buys {b} [boxes|bags|packs] with {a} {t}s each. How many {t}s [is that|are there|in all]?",
          "[One|A|Each] {t} costs {a} euros. What do {b} {t}s cost?",
          "There are {b} rooms with {a} {t}s [each|in each|per room]. How many {t}s [in all|are there|is that]?",
          "{b} [boxes|shelves|tables|groups], {a} {t}s [on each|in each|each]. How many {t}s?",
          "[Each|Every] of {b} [people|friends|children] [has|gets|brings] {a} {t}s. How many {t}s [is that|in total|are needed]?",
          "{n} [works|walks|reads] {a} [hours|km|pages] a day. How [many|much] [in|is that in] {b} days?"),
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
