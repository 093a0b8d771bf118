"""Short Python functions from a table of families, and small programs whose output is asked for.

A family: the parameters, ways to say what the function does, its body (an expression, or lines), and how to draw
arguments for its test cases. {k}, {m} are drawn numbers, {w} a drawn word; held-out numbers and words are never trained.
"""

import words
from arithmetic import adding, difference, multiplying
from exchange import check_contains, check_python, simple


def ints(source, count=4):
    return [source.integer(-20, 40) for _ in range(count)]


def number(source):
    return source.integer(-30, 60)


def text(source):
    return source.pick((words.made_word(source), source.pick(words.THINGS), words.phrase(source, 2, 3)))


def texts(source):
    return [words.made_word(source) for _ in range(3)]


N, S, L, W = (number,), (text,), (ints,), (texts,)

# (canonical name, parameter names, what it returns, expression or body, makers of arguments)
FAMILIES = [
    ("add_number", "n", "[n plus {k}|the number plus {k}|n increased by {k}|n + {k}|{k} more than n|the sum of n and {k}]", "n + {k}", N),
    ("subtract_number", "n", "[n minus {k}|the number minus {k}|n decreased by {k}|n - {k}|{k} less than n]", "n - {k}", N),
    ("multiply", "n", "[n times {k}|n multiplied by {k}|{k} times n|n * {k}|{k} times the number|the product of n and {k}]", "n * {k}", N),
    ("divide", "n", "[n divided by {k} without remainder|the integer part of n / {k}|n // {k}]", "n // {k}", N),
    ("remainder", "n", "[the remainder of n divided by {k}|n modulo {k}|n % {k}]", "n % {k}", N),
    ("is_multiple", "n", "[whether|True if] n is [a multiple of|divisible by] {k}", "n % {k} == 0", N),
    ("is_larger", "n", "[whether|True if|True when] n is [larger than|greater than|bigger than|more than|above|over] {k}", "n > {k}", N),
    ("is_smaller", "n", "[whether|True if|True when] n is [smaller than|less than|lower than|below|under] {k}", "n < {k}", N),
    ("linear", "n", "[n times {k} plus {m}|{k} times n plus {m}|n * {k} + {m}]", "n * {k} + {m}", N),
    ("at_most", "n", "[the smaller of n and {k}|n, but at most {k}]", "min(n, {k})", N),
    ("at_least", "n", "[the larger of n and {k}|n, but at least {k}]", "max(n, {k})", N),
    ("double", "n", "[twice the number|the double of n|n doubled|two times n|twice n|double n]", "n * 2", N),
    ("triple", "n", "[three times the number|the triple of n|n tripled|three times n|triple n]", "n * 3", N),
    ("half", "n", "[half the number|the half of n|n halved|half of n]", "n / 2", N),
    ("square", "n", "[the square of n|n squared|n times itself]", "n * n", N),
    ("cube", "n", "[the cube of n|n cubed]", "n ** 3", N),
    ("negate", "n", "[n with the opposite sign|the negative of n|minus n]", "-n", N),
    ("absolute", "n", "[the absolute value of n|n without its sign]", "abs(n)", N),
    ("is_even", "n", "[whether|True if] n is even", "n % 2 == 0", N),
    ("is_odd", "n", "[whether|True if] n is odd", "n % 2 == 1", N),
    ("is_positive", "n", "[whether|True if] n is positive", "n > 0", N),
    ("is_negative", "n", "[whether|True if] n is negative", "n < 0", N),
    ("add", "a, b", "[the sum of a and b|a plus b|a + b|the sum of two numbers]", "a + b", N * 2),
    ("subtract", "a, b", "[the difference of a and b|a minus b|a - b]", "a - b", N * 2),
    ("product", "a, b", "[the product of a and b|a times b|a * b|the product of two numbers]", "a * b", N * 2),
    ("larger", "a, b", "the [larger|bigger|maximum|greater] of [a and b|two numbers]", "max(a, b)", N * 2),
    ("smaller", "a, b", "the [smaller|minimum|lesser] of [a and b|two numbers]", "min(a, b)", N * 2),
    ("same", "a, b", "[whether|True if] a and b are [equal|the same]", "a == b", N * 2),
    ("sum_three", "a, b, c", "the sum of [a, b and c|three numbers]", "a + b + c", N * 3),
    ("upper", "s", "[the string in upper case|s in upper case|s in capital letters|s in uppercase|s with capital letters|the upper case of s]", "s.upper()", S),
    ("lower", "s", "[the string in lower case|s in lower case|s in small letters|s in lowercase|the lower case of s]", "s.lower()", S),
    ("reverse", "s", "[the string reversed|s reversed|s backwards|the reverse of s]", "s[::-1]", S),
    ("length", "s", "[the length of the string|the length of s|the number of characters in s|how many letters s has|how long s is]", "len(s)", S),
    ("first_letter", "s", "[the first letter of s|the first character of the string|the first character of s]", "s[0]", S),
    ("last_letter", "s", "[the last letter of s|the last character of the string|the last character of s]", "s[-1]", S),
    ("start", "s", "the first {k} characters of [s|the string]", "s[:{k}]", S),
    ("end", "s", "the last {k} characters of [s|the string]", "s[-{k}:]", S),
    ("repeat", "s", "[the string repeated {k} times|s repeated {k} times|s {k} times]", "s * {k}", S),
    ("add_suffix", "s", "[s with|the string with] '{w}' [at the end|added at the end|appended]", "s + '{w}'", S),
    ("add_prefix", "s", "[s with|the string with] '{w}' [in front|at the start|put before it]", "'{w}' + s", S),
    ("greet", "name", "['{w}, ' followed by the name|the name after '{w}, ']", "'{w}, ' + name", S),
    ("starts", "s", "[whether|True if] [s|the string] starts with '{w}'", "s.startswith('{w}')", S),
    ("ends", "s", "[whether|True if] [s|the string] ends with '{w}'", "s.endswith('{w}')", S),
    ("contains", "s", "[whether|True if] [s|the string] contains '{w}'", "'{w}' in s", S),
    ("count_letter", "s", "how often '{c}' [is|occurs] in [s|the string]", "s.count('{c}')", S),
    ("replace_letter", "s", "[s|the string] with '{c}' replaced by '{d}'", "s.replace('{c}', '{d}')", S),
    ("count_words", "s", "the number of words in [s|the string]", "len(s.split())", S),
    ("strip", "s", "[s|the string] without spaces at [its ends|both ends]", "s.strip()",
     (lambda s: " " * s.integer(0, 2) + text(s) + " " * s.integer(0, 2),)),
    ("is_palindrome", "s", "[whether|True if] [s|the string] is a palindrome", "s == s[::-1]", S),
    ("total", "items", "[the sum of the list|the sum of items|the sum of all items|the total of the list|all items added up|the items added]", "sum(items)", L),
    ("largest", "items", "the [largest|biggest|maximum] [item|element] of the list", "max(items)", L),
    ("smallest", "items", "the [smallest|minimum] [item|element] of the list", "min(items)", L),
    ("count", "items", "[the number of items|the length of the list|how many items there are]", "len(items)", L),
    ("first", "items", "the first [item|element] of the list", "items[0]", L),
    ("last", "items", "the last [item|element] of the list", "items[-1]", L),
    ("reverse_list", "items", "[the list reversed|the list in reverse order|items in reverse order]", "items[::-1]", L),
    ("sort", "items", "[the list sorted|items sorted|the sorted list]", "sorted(items)", L),
    ("sort_down", "items", "[the list sorted from large to small|items sorted in descending order]", "sorted(items, reverse=True)", L),
    ("take", "items", "the first {k} [items|elements] of the list", "items[:{k}]", L),
    ("drop", "items", "the list without its first {k} [items|elements]", "items[{k}:]", L),
    ("has", "items", "[whether|True if] {k} is in the list", "{k} in items", L),
    ("add_each", "items", "[the list with {k} added to each item|each item plus {k}]", "[x + {k} for x in items]", L),
    ("times_each", "items", "[the list with each item times {k}|each item multiplied by {k}]", "[x * {k} for x in items]", L),
    ("squares", "items", "[the squares of the items|a list of the squares|each item squared]", "[x * x for x in items]", L),
    ("above", "items", "the items [larger|greater] than {k}", "[x for x in items if x > {k}]", L),
    ("below", "items", "the items [smaller|less] than {k}", "[x for x in items if x < {k}]", L),
    ("evens", "items", "the even [items|numbers] of the list", "[x for x in items if x % 2 == 0]", L),
    ("odds", "items", "the odd [items|numbers] of the list", "[x for x in items if x % 2 == 1]", L),
    ("average", "items", "[the average of the list|the mean of the items]", "sum(items) / len(items)", L),
    ("unique", "items", "the [unique|distinct] items, sorted", "sorted(set(items))", L),
    ("join", "parts", "the strings joined by '{j}'", "'{j}'.join(parts)", W),
    ("join_all", "parts", "the strings joined [without|with no] separator", "''.join(parts)", W),
    ("upper_all", "parts", "each string in upper case", "[p.upper() for p in parts]", W),
    ("lengths", "parts", "the length of each string", "[len(p) for p in parts]", W),
    ("longest", "parts", "the longest string", "max(parts, key=len)", W),
    ("split_comma", "s", "[s|the string] split at [commas|each comma]", "s.split(',')",
     (lambda s: ",".join(texts(s)),)),
    ("factorial", "n", "[the factorial of n|n factorial]",
     "result = 1\nfor i in range(1, n + 1):\n    result *= i\nreturn result", (lambda s: s.integer(0, 8),)),
    ("sum_to", "n", "the sum of the numbers from 1 to n",
     "total = 0\nfor i in range(1, n + 1):\n    total += i\nreturn total", (lambda s: s.integer(0, 30),)),
    ("sign", "n", "[the sign of n: 1, 0 or -1|1 for positive, -1 for negative, else 0]",
     "if n > 0:\n    return 1\nif n < 0:\n    return -1\nreturn 0", N),
    ("count_vowels", "s", "the number of vowels in [s|the string]",
     "count = 0\nfor c in s:\n    if c in 'aeiou':\n        count += 1\nreturn count", S),
    ("fibonacci", "n", "the n-th Fibonacci number",
     "a, b = 0, 1\nfor i in range(n):\n    a, b = b, a + b\nreturn a", (lambda s: s.integer(0, 15),)),
]
NEEDLE = {"starts": "w", "ends": "w", "contains": "w", "count_letter": "c", "replace_letter": "c"}  # what to look for
RENAMES = {"n": "n n n x number value".split(), "s": "s s s text word t".split(), "items": "items items numbers values xs".split(),
           "parts": "parts parts words lines".split(), "name": ["name"]}


def rename(source, parameters, said, body):
    """Another name for the one parameter, now and then."""
    if "," in parameters or source.chance(0.6):
        return parameters, said, body
    other = source.pick(RENAMES[parameters])

    def swap(line):
        out, word = [], ""
        for char in line + "\0":
            if char.isalnum() or char == "_":
                word += char
                continue
            out.append(other if word == parameters else word)
            out.append(char)
            word = ""
        return "".join(out)[:-1]
    return other, swap(said) if parameters != "name" else said, swap(body)


ASK_NAMED = (
    "[Write|Give me|I need|Show me|Please write|Define|Make|Can you write|Create|Build|Code|Could you write] a [Python |Python ||]function {f} "
    "[that|which] [returns|gives|gives back] {r}[.|]",
    "[Write|Define|Implement|Code|Create] {f} in Python[.|:] [It returns|It should return|Return|It gives|It must return|Result:] {r}[.|]",
    "[Write|Python:|In Python:] [a |]function {f}[ that returns|, returning|, giving|:] {r}",
    "[Write|Python:|Python,|In Python,] {f}[: return| which returns| returning] {r}[.|]",
    "[I want|I'd like|We need|I am looking for] [a function |a Python function |]{f}[. It returns|. It should give| that returns| returning] {r}[.|]",
    "[How do I|How can I|How would you] write {f} in Python[ so that it returns| to return| which gives] {r}?",
    "{f} [should|must|shall] [return|give] {r}. [Write it[ in Python|].|Python code[, please|].|Code it.]",
    "Python function {f}: {r}")
ASK_UNNAMED = (
    "[Write|Give me|I need|Show me|Please write|Make|Create|Code] a Python function [that|which] [returns|gives|gives back] {r}[.|]",
    "[How do I|How can I] return {r} in Python? [Write|Give me|Show me] a function[.|]", "[A|One] Python function for {r}[, please|].")


def function(source):
    canonical, parameters, said, body, makers = source.pick(FAMILIES)
    letters = "abcdefghiklmnoprstuvw"
    if canonical in ("take", "drop", "start", "end", "repeat"):
        k = source.integer(2, 5)
    else:
        k = source.unseen("k" + canonical, lambda: source.integer(2, 99))
    drawn = {"k": k, "m": source.integer(1, 50), "w": words.made_word(source), "c": source.pick(letters),
             "d": source.pick(letters), "j": source.pick(("-", ", ", " ", "_", "/", ":"))}
    for key, value in drawn.items():
        said, body = said.replace("{" + key + "}", str(value)), body.replace("{" + key + "}", str(value))
    said = source.spin(said)
    parameters, said, body = rename(source, parameters, said, body)
    named = source.chance(0.8)
    name = (words.identifier(source) if source.chance(0.6) else canonical) if named else canonical
    lines = body.split("\n") if "\n" in body else ["return " + body]
    code = f"def {name}({parameters}):\n" + "\n".join("    " + line for line in lines)
    shown = source.pick((name, f"{name}({parameters})")) if named else ""
    question = source.spin(source.pick(ASK_NAMED if named else ASK_UNNAMED), f=shown, r=said)
    if canonical == "greet" and "name" not in parameters:
        question += f" The parameter is {parameters}."
    scope = {}
    exec(code, scope)  # our own table's code
    cases = []
    for _ in range(5):
        arguments = [m(source) for m in makers]
        if canonical in NEEDLE and source.chance(0.6):
            needle = drawn[NEEDLE[canonical]]
            arguments = [needle + arguments[0] + needle]
        if canonical == "is_palindrome" and source.chance(0.5):
            arguments = [arguments[0] + arguments[0][::-1]]
        cases.append((arguments, scope[name](*arguments)))
    thought = f"{name} takes {parameters}. " + ("It loops." if "for " in body and "\n" in body else
                                               "It needs if." if "\n" in body else f"Return {body}.")
    return simple("code", "python", question, thought, f"```python\n{code}\n```",
                  check_python(name if named else None, cases), direct=True)


# Programs whose output is asked for: lines, working, output.
def variables(source):
    a, b, c = source.sample("x y z a b c n m k t u v".split(), 3)
    p, q = source.unseen("program", lambda: (source.integer(1, 30), source.integer(1, 30)))
    op = source.pick("+-*")
    q = q % 9 + 1 if op == "*" else q
    first = {"+": p + q, "-": p - q, "*": p * q}[op]
    working = {"+": adding, "-": difference, "*": multiplying}[op]
    if source.chance(0.4):
        lines = [f"{a} = {p}", f"{b} = {a} {op} {q}", f"print({b})"]
        return lines, f"{a} = {p}. {b} = {p} {op} {q}. {working(p, q)}", first
    if source.chance(0.5):
        lines = [f"{a} = {p}", f"{b} = {q}", f"print({a} {op} {b})"]
        return lines, f"{a} = {p}. {b} = {q}. {working(p, q)}", first
    r = source.integer(1, 20)
    lines = [f"{a} = {p}", f"{b} = {q}", f"{c} = {a} {op} {b}", f"print({c} + {r})"]
    if first < 0:
        return variables(source)
    return lines, f"{a} = {p}. {b} = {q}. {c} = {p} {op} {q}. {working(p, q)} {adding(first, r)}", first + r


def loop(source):
    t, i = source.pick((("total", "i"), ("s", "i"), ("x", "k"), ("count", "n")))
    start, times = source.integer(0, 9), source.integer(2, 4)
    step = source.unseen("loop", lambda: (source.integer(1, 20), start, times))[0]
    kind = source.integer(0, 2)
    trace, value = [f"{t} = {start}"], start
    for k in range(times):
        value += (step, k, k + step)[kind]
        trace.append(f"{i} = {k}: {t} = {value}")
    change = (str(step), i, f"{i} + {step}")[kind]
    return [f"{t} = {start}", f"for {i} in range({times}):", f"    {t} += {change}", f"print({t})"], ". ".join(trace) + ".", value


def strings(source):
    word = words.made_word(source) if source.chance(0.6) else source.pick(words.THINGS)
    other = source.pick(words.ANIMALS)
    kind = source.integer(0, 2)
    if kind == 0:
        return [f"s = '{word}'", f"print(s + '{other}')"], "Both strings together.", word + other
    if kind == 1:
        times = source.integer(2, 3)
        return [f"s = '{word}'", f"print(s * {times})"], f"The string {times} times.", word * times
    return [f"print('{word} {other}')"], "The text itself.", f"{word} {other}"


def lists(source):
    items = source.unseen("items", lambda: [source.integer(1, 40) for _ in range(source.integer(2, 4))])
    name = source.pick("a b xs items numbers".split())
    kind = source.integer(0, 5)
    if kind == 0:
        return [f"{name} = {items}", f"print(len({name}))"], f"{name} has {len(items)} items.", len(items)
    if kind == 1:
        at = source.integer(0, len(items) - 1)
        counted = ", ".join(f"{i}: {v}" for i, v in enumerate(items))
        return [f"{name} = {items}", f"print({name}[{at}])"], f"{counted}. At {at}: {items[at]}.", items[at]
    if kind == 2:
        return [f"{name} = {items}", f"print({name}[-1])"], f"The last is {items[-1]}.", items[-1]
    if kind in (3, 4):
        function_name, value = (("max", max(items)), ("min", min(items)))[kind - 3]
        ranked = ", ".join(map(str, sorted(items)))
        return [f"{name} = {items}", f"print({function_name}({name}))"], f"From small to large: {ranked}.", value
    total, steps = items[0], []
    for value in items[1:]:
        steps.append(adding(total, value))
        total += value
    return [f"{name} = {items}", f"print(sum({name}))"], " ".join(steps), total


def condition(source):
    a, b = source.unseen("condition", lambda: (source.integer(1, 50), source.integer(1, 50)))
    x = source.pick("x n a k value".split())
    yes, no = source.sample(words.ANIMALS, 2) if source.chance(0.5) else ("yes", "no")
    op = source.pick(("<", ">", ">=", "<="))
    true = {"<": a < b, ">": a > b, ">=": a >= b, "<=": a <= b}[op]
    lines = [f"{x} = {a}", f"if {x} {op} {b}:", f"    print('{yes}')", "else:", f"    print('{no}')"]
    return lines, f"{a} {op} {b} is {true}.", yes if true else no


def output(source):
    lines, working, result = source.weighted({variables: 4, loop: 3, strings: 3, lists: 4, condition: 3})(source)
    program = "\n".join(lines)
    question = source.spin("[[What does|What will] this [program|Python code|code|Python program|Python|] print|What is the output[ of this| of this program| of "
                           "the code|]|What is printed[ here|]|Output of this [code|program|Python]|Give me the output[ of this|]|Tell me what this "
                           "prints|Run this in your head|What comes out [here|of this]|What do I see when I run this][?|:]\n{p}",
                           p=source.pick((f"```python\n{program}\n```", program, f"```\n{program}\n```")))
    return simple("code", "output", question, working, f"It prints {result}.", check_contains([result]))


PARTS = {function: 3, output: 2}


def make(source):
    return source.weighted(PARTS)(source)
