"""Exchanges with tools: one call, several in one action, calls in a chain, a follow-up, a field asked for, a choice among
results, an error, and requests that no declared tool can serve.
"""

import json

import words
from exchange import Exchange, answer, check_calls, check_contains, check_equals, user
from tool_catalogue import TABLE, another, declare, result_text, use, well_known

ERRORS = ("not found", "timeout", "no permission", "invalid input", "service down", "not available", "connection refused")


def error_text(source):
    return source.pick(ERRORS) if source.chance(0.4) else source.spin(
        "[{a}|the {a}|no {a}|bad {a}|unknown {a}][| is [closed|missing|locked|empty|broken|gone|busy]]", a=words.term(source))


def calling(source, calls, thought):
    """The assistant message for [(name, arguments)]."""
    return {"role": "assistant", "reasoning": thought, "content": "", "tool_calls": [
        {"id": f"call_{source.integer(0, 16 ** 8 - 1):08x}", "type": "function", "function": {"name": n, "arguments": a}}
        for n, a in calls]}


def call_message(source, uses, thought):
    return calling(source, [(u.name, u.arguments) for u in uses], thought)


def result_messages(calls, texts):
    return [{"role": "tool", "tool_call_id": c["id"], "content": t} for c, t in zip(calls["tool_calls"], texts)]


def plan(uses):
    """The thinking before calls."""
    working = " ".join(u.working for u in uses if u.working)
    said = ["call " + u.name + (" with " + words.listing(f"{k} {v}" for k, v in u.arguments.items()) if u.arguments else "")
            for u in uses]
    text = (f"{len(uses)} calls: " if len(uses) > 1 else "") + "; ".join(said)
    return (working + " " if working else "") + text[0].upper() + text[1:] + "."


def seen(result):
    return "The result: " + ", ".join(f"{k} {words.listing(v) if isinstance(v, list) else v}" for k, v in result.items()) + "."


def decoys(source, tools, count):
    """Other tools to declare beside `tools`, shuffled in."""
    names = {t["function"]["name"] for t in tools}
    tools = list(tools)
    for _ in range(count):
        other = use(source).tool
        if other["function"]["name"] not in names:
            names.add(other["function"]["name"])
            tools.append(other)
    return source.shuffled(tools)


def clashes(first, second):
    """Would a request for one be a request for the other too?"""
    def entries(u):
        return {e for e, row in TABLE.items() if u.name in row[0].split()} or {u.tool["function"]["description"]}
    return first.name == second.name or bool(entries(first) & entries(second))


def one(source, chosen=None):
    """A call and the answer from its result."""
    u = chosen or use(source)
    call = call_message(source, [u], plan([u]))
    messages = [user(u.asked), call, *result_messages(call, [result_text(source, u.result)]), answer(seen(u.result), u.said)]
    return Exchange("tool_call", "one", messages,
                    {1: check_calls([(u.name, u.arguments)]), 3: check_contains(u.facts)}, tools=[u.tool])


def failing(source):
    u, error = use(source), error_text(source)
    call = call_message(source, [u], plan([u]))
    text = source.pick((f'{{"error": "{error}"}}', f"error: {error}", f"Error: {error}"))
    said = f"The tool failed: {error}."
    messages = [user(u.asked), call, *result_messages(call, [text]), answer(f"The result: error {error}.", said)]
    return Exchange("tool_answer", "error", messages,
                    {1: check_calls([(u.name, u.arguments)]), 3: check_contains([error])}, tools=[u.tool])


def several(source):
    """Two or three calls in one action: of one tool, or of two."""
    first = use(source)
    uses = [first]
    same = source.chance(0.6)
    for _ in range(source.pick((1, 1, 2))):
        extra = another(source, first) if same else use(source)
        if extra is None or any(u.arguments == extra.arguments for u in uses) or not same and any(clashes(u, extra) for u in uses):
            return several(source)
        uses.append(extra)
    parts = [uses[0].asked.rstrip(".?! ")]
    for u in uses[1:]:
        part = (u.again if same else u.asked).rstrip(".?! ")
        parts.append(part if same else source.spin("[Also|And|Then]: {p}", p=part))
    question = source.pick((". ", "? ", ". ")).join(parts) + source.pick((".", "?", "."))
    call = call_message(source, uses, plan(uses))
    texts = [result_text(source, u.result) for u in uses]
    last = answer(" ".join(seen(u.result) for u in uses), " ".join(
        u.said if u.said[-1] in ".?!" else u.said + "." for u in uses))
    facts = [f for u in uses for f in u.facts]
    tools = [u.tool for u in uses] if not same else [first.tool]
    messages = [user(question), call, *result_messages(call, texts), last]
    return Exchange("tool_call", "several", messages, {1: check_calls([(u.name, u.arguments) for u in uses]),
                                                       len(messages) - 1: check_contains(facts)}, tools=tools)


BREATH = {  # requests for several uses of one tool; {l} lists the values
    "weather": "[What is|How is|What's] the weather [like |]in {l}?|Weather in {l}[, please|].|[Compare|Check|Get] the weather [in|of|for] {l}.|How warm is "
               "it in {l}?|[I visit|We go to|I travel to] {l}. How is the weather there?",
    "time": "[What time is it|What is the time|What's the time] in {l}?",
    "price": "[What do|How much do] [the |]{l} cost?", "user": "[Look up|Find|Who are] {l}[.|]",
    "stock": "[What are|Get|Show me] the prices of {l}[?|]", "define": "[What do {l} mean?|Define {l}.]",
    "read": "[Read|Open|Show me] [the files |]{l}[.|]", "status": "[What is|Check] the status of [the |]orders {l}[?|]"}


def in_one_breath(source):
    """The weather in A and B: two calls asked for in one breath."""
    entry = source.pick(("weather", "time", "price", "user", "stock", "define", "read", "status"))
    first = well_known(source, entry)
    uses = [first]
    for _ in range(source.pick((1, 1, 2))):
        uses.append(well_known(source, entry, first))
    values = [next(iter(u.arguments.values())) for u in uses]
    if len(set(map(str, values))) < len(values):
        return in_one_breath(source)
    question = source.spin("[" + BREATH[entry] + "]", l=words.listing(values))
    call = call_message(source, uses, plan(uses))
    last = answer(" ".join(seen(u.result) for u in uses), " ".join(u.said if u.said[-1] == "." else u.said + "." for u in uses))
    messages = [user(question), call, *result_messages(call, [result_text(source, u.result) for u in uses]), last]
    return Exchange("tool_call", "several", messages,
                    {1: check_calls([(u.name, u.arguments) for u in uses]),
                     len(messages) - 1: check_contains([f for u in uses for f in u.facts])}, tools=[first.tool])


def follow_up(source):
    """The same tool again in a later turn, asked for in short."""
    first = use(source)
    second = another(source, first)
    if second is None or second.arguments == first.arguments:
        return follow_up(source)
    start = one(source, first)
    call = call_message(source, [second], plan([second]))
    messages = start.messages + [user(second.again), call, *result_messages(call, [result_text(source, second.result)]),
                                 answer(seen(second.result), second.said)]
    checks = {**start.checks, 5: check_calls([(second.name, second.arguments)]), 7: check_contains(second.facts)}
    return Exchange("tool_call", "follow_up", messages, checks, tools=start.tools)


def chained(source):
    """The second call needs what the first returned."""
    noun = source.pick(words.NOUNS)
    finder = declare(source, source.pick((f"find_{noun}", f"lookup_{noun}", f"search_{noun}")), f"Find the id of a {noun} by name",
                     {"name": "string"})
    verb, said, done = source.pick((("get", "Show me|What is the state of|Tell me about", "state"), ("delete", "Delete|Remove", "status"),
                                    ("open", "Open|Please open", "status"), ("close", "Close|Please close", "status"),
                                    ("check", "Check|Please check", "state")))
    actor = declare(source, f"{verb}_{noun}", f"{verb.capitalize()} a {noun} by id", {"id": "integer"})
    name = source.pick((words.made_word(source).capitalize(), words.first_name(source)))
    number = int(words.code_number(source))
    state = source.pick(("ready", "open", "closed", "done", "busy", "empty", "lost", "ok"))
    finder_name, actor_name = (t["function"]["name"] for t in (finder, actor))
    first = calling(source, [(finder_name, {"name": name})], f"I need the id first. Call {finder_name} with name {name}.")
    second = calling(source, [(actor_name, {"id": number})], f"The result: id {number}. Call {actor_name} with id {number}.")
    messages = [user(source.spin("[" + said + "] the {n} {x}.", n=noun, x=name)),
                first, *result_messages(first, [result_text(source, {"id": number})]),
                second, *result_messages(second, [result_text(source, {done: state})]),
                answer(f"The result: {done} {state}.", f"The {noun} {name} is {state}.")]
    return Exchange("tool_call", "chain", messages,
                    {1: check_calls([(finder_name, {"name": name})]), 3: check_calls([(actor_name, {"id": number})]),
                     5: check_contains([state])}, tools=source.shuffled([finder, actor]))


def field(source):
    """A result of several fields, one of which is asked for."""
    what, who = source.pick((("user", words.first_name), ("order", words.code_number), ("server", words.made_word),
                             ("product", words.made_word), ("package", words.code_mixed), ("room", words.code_number)))
    makers = {"email": words.email, "age": lambda s: s.integer(18, 90), "city": words.city, "phone": words.phone,
              "price": lambda s: s.integer(1, 999), "status": lambda s: s.pick(("open", "closed", "shipped", "broken")),
              "owner": words.first_name, "color": lambda s: s.pick(words.COLORS), "weight": lambda s: s.integer(1, 99),
              "day": lambda s: s.pick(words.WEEKDAYS), "port": lambda s: s.integer(80, 9999), "version": lambda s: f"{s.integer(1, 9)}.{s.integer(0, 30)}"}
    keys = source.sample(list(makers), source.integer(2, 5))
    result = {k: makers[k](source) for k in keys}
    key, name = source.pick(keys), who(source)
    parameter = source.pick(("name", "id", what))
    tool = declare(source, source.pick((f"get_{what}", f"{what}_info", f"lookup_{what}", f"find_{what}")), f"Data of a {what}",
                   {parameter: "string"})
    question = source.spin("[[What is|What's|Tell me|Give me|I need] the {k} of [{w} {n}|the {w} {n}]?|[What|Which] {k} has {w} {n}?]",
                           k=key, w=what, n=name)
    call_name = tool["function"]["name"]
    call = calling(source, [(call_name, {parameter: name})], f"Call {call_name} with {parameter} {name}.")
    text = f"The {key} of {what} {name} is {result[key]}."
    messages = [user(question), call, *result_messages(call, [result_text(source, result)]),
                answer(f"The result: {key} {result[key]}.", text)]
    others = [v for k, v in result.items() if k != key and str(v) != str(result[key])]
    return Exchange("tool_answer", "field", messages,
                    {1: check_calls([(call_name, {parameter: name})]), 3: check_contains([result[key]], others)},
                    tools=[tool])


def choice(source):
    """A list of results: the cheapest, the most expensive, or how many."""
    what = source.pick(("hotel", "flight", "car", "phone", "ticket", "book", "server", "course"))
    where = words.city(source)
    names = []
    while len(names) < source.integer(2, 4):
        name = words.made_word(source).capitalize()
        if name not in names:
            names.append(name)
    prices = source.sample(range(10, 100), len(names))
    kind = source.pick(("cheapest", "most expensive", "count"))
    tool = declare(source, source.pick((f"find_{what}s", f"list_{what}s", f"search_{what}s")), f"List {what}s in a city", {"city": "string"})
    arguments = {"city": where}
    call_name = tool["function"]["name"]
    call = calling(source, [(call_name, arguments)], f"Call {call_name} with city {where}.")
    ranked = sorted(zip(prices, names))
    if source.chance(0.5):
        text = json.dumps([{"name": n, "price": p} for n, p in zip(names, prices)])
    else:
        text = source.pick((", ", "\n")).join(f"{n}: {p}" for n, p in zip(names, prices))
    if kind == "count":
        question = source.spin("How many {w}s are [there |]in {c}?", w=what, c=where)
        thought = "The result: " + ", ".join(f"{i + 1} {n}" for i, n in enumerate(names)) + "."
        said, check = f"There are {len(names)} {what}s in {where}.", check_contains([len(names)])
    else:
        price, name = ranked[0 if kind == "cheapest" else -1]
        question = source.spin("[[What|Which] is the {k} {w} in {c}?|Find [me |]the {k} {w} in {c}.]", k=kind, w=what, c=where)
        thought = "By price: " + ", ".join(f"{p} {n}" for p, n in ranked) + f". The {kind} is {name}."
        said = f"The {kind} {what} is {name} for {price}."
        check = check_contains([name, price], [n for n in names if n != name])
    messages = [user(question), call, *result_messages(call, [text]), answer(thought, said)]
    return Exchange("tool_answer", "choice", messages, {1: check_calls([(call_name, arguments)]), 3: check}, tools=[tool])


def none_fits(source):
    """Tools are declared, but not the one that is needed."""
    wanted = well_known(source)
    if wanted.name in TABLE["calculate"][0].split() + TABLE["define"][0].split():
        return none_fits(source)
    others = [use(source) for _ in range(source.integer(0, 3))]
    tools = [other.tool for other in others if not clashes(wanted, other)]
    return Exchange("tool_call", "none_fits", [user(wanted.asked), answer("No tool fits this.", "I have no tool for that.")],
                    {1: check_equals("I have no tool for that.")}, tools=tools, without_tools=True)


PARTS = {one: 8, several: 3, in_one_breath: 3, follow_up: 3, chained: 2, field: 4, choice: 3, failing: 2, none_fits: 1}


def make(source):
    return source.weighted(PARTS)(source)
