"""Records in plain words, to be given back as JSON; by the user's wish, by response_format, or by a schema."""

import json

import words
from exchange import check_json, simple


def text_of(value):
    return "yes" if value is True else "no" if value is False else str(value)


FIELDS = {  # key: (maker, ways to say it about a person)
    "age": (lambda s: s.integer(18, 90), ("is {v} years old", "is {v}", "has the age {v}", "turned {v}", "is aged {v}")),
    "city": (words.city, ("lives in {v}", "comes from {v}", "works in {v}", "is from {v}", "moved to {v}")),
    "job": (lambda s: s.pick(words.JOBS), ("works as a {v}", "is a {v}", "has the job {v}")),
    "color": (lambda s: s.pick(words.COLORS), ("likes {v}", "likes the color {v}")),
    "pet": (lambda s: s.pick(words.ANIMALS), ("has a {v}", "owns a {v}")),
    "email": (words.email, ("has the email {v}", "writes from {v}")),
    "phone": (words.phone, ("has the phone number {v}", "can be called at {v}")),
    "team": (words.term, ("is in team {v}", "plays for {v}")),
    "married": (lambda s: s.chance(0.5), ("is[ not|] married",)),
}
ITEM = {  # key: maker, for things described as "key value" pairs
    "name": words.term, "price": lambda s: s.integer(1, 999), "count": lambda s: s.integer(1, 99),
    "color": lambda s: s.pick(words.COLORS), "size": lambda s: s.integer(1, 60), "city": words.city,
    "owner": words.first_name, "id": lambda s: int(words.code_number(s)), "code": words.code_mixed, "file": words.file_name,
    "port": lambda s: s.integer(80, 9999), "host": words.term, "user": lambda s: words.first_name(s).lower(),
    "active": lambda s: s.chance(0.5), "day": lambda s: s.pick(words.WEEKDAYS), "time": words.clock,
    "title": words.phrase, "weight": lambda s: s.integer(1, 500), "status": lambda s: s.pick(("open", "closed", "ready", "failed")),
}


def request(source, keys):
    named = words.listing(keys)
    json_word = source.pick(("JSON", "JSON", "a JSON object", "json"))
    key_word = source.pick(("", "", "the keys ", "keys ", "the fields ")) if len(keys) > 1 else source.pick(("", "the key ", "key "))
    return source.spin(source.pick((
        "[Give|Return|Write|Answer with|Reply with|Make|Give me|I want|I need|Show|Create|Print] {j} with {w}{k}[, please|]",
        "[Convert|Turn|Change|Put|Make|Bring|Write] [this|it|that] [into|to|as|in] {j} with {w}{k}", "[As|In] {j} with {w}{k}[, please|]",
        "[Give|Return|Extract|Write|Put|Get|I need|I want|Show] {k} [as|in] {j}", "{j} with {w}{k}[, please|]",
        "[I would like|I want|Give me] [this|that] as {j} with {w}{k}", "[Put|Write] [this|it] [in|into] {j} under {w}{k}")),
        j=json_word, w=key_word, k=named)


def finish(source, part, statement, keys, value):
    """The exchange for `value`, asked for in one of three ways."""
    way = source.integer(0, 4)
    text = json.dumps(value, ensure_ascii=False)
    named = words.listing(keys)
    thought = f"JSON with {named}."
    if way <= 2:
        asked = request(source, keys)
        question = source.spin("[{r}: {t}|{r}. {t}|{t} {r}.|{r}:\n{t}|{t}\n{r}]", r=asked, t=statement)
        return simple("json", part, question, thought, text, check_json(value), direct=True)
    if way == 3:
        question = source.spin("[{t} Keys: {k}.|{t} Give {k}.|Use the keys {k}. {t}|{t} I need {k}.]", k=", ".join(keys), t=statement)
        return simple("json", part, question, thought, text, check_json(value), direct=True,
                      response_format={"type": "json_object"})
    types = {str: "string", int: "integer", bool: "boolean", list: "array", dict: "object"}
    schema = {"type": "object", "properties": {k: {"type": types[type(value[k])]} for k in keys}, "required": list(keys)}
    question = source.spin("[{t}|Extract the data: {t}|{t} Fill in the schema.]", t=statement)
    return simple("json", part, question, thought, text, check_json(value), direct=True,
                  response_format={"type": "json_schema", "json_schema": {"name": "record", "schema": schema}})


def person(source):
    name = words.full_name(source) if source.chance(0.5) else words.first_name(source)
    keys = source.sample(list(FIELDS), source.integer(1, 3))
    value, said = {"name": name}, []
    for key in keys:
        made = FIELDS[key][0](source)
        way = source.pick(FIELDS[key][1])
        if key == "married":
            said.append("is married" if made else "is not married")
        else:
            said.append(way.replace("{v}", str(made)))
        value[key] = made
    asked = ["name"] + keys
    if source.chance(0.3):  # leave one out, or ask in another order
        asked = source.shuffled(asked)[:max(1, len(asked) - source.integer(0, 1))]
    if source.chance(0.2):  # in sentences of their own
        other = source.pick(("He", "She"))
        text = f"{name} {said[0]}." + "".join(f" {other} {s}." for s in said[1:])
    else:
        text = f"{name} {words.listing(said)}."
    return finish(source, "person", text, asked, {k: value[k] for k in asked})


def pairs(source):
    keys = source.sample(list(ITEM), source.integer(2, 4))
    value = {k: ITEM[k](source) for k in keys}
    style = source.integer(0, 4)
    if style == 0:
        statement = ", ".join(f"{k} {text_of(v)}" for k, v in value.items()) + "."
    elif style == 1:
        statement = ", ".join(f"{k}={text_of(v)}" for k, v in value.items())
    elif style == 2:
        statement = "\n".join(f"{k}: {text_of(v)}" for k, v in value.items()) + "\n"
    elif style == 3:
        statement = words.listing(f"{k} is {text_of(v)}" for k, v in value.items()) + "."
    else:
        statement = f"The {source.pick(words.NOUNS)} has " + words.listing(f"{k} {text_of(v)}" for k, v in value.items()) + "."
    return finish(source, "pairs", statement, keys, value)


def lists(source):
    kind, pool = source.pick((("colors", words.COLORS), ("animals", words.ANIMALS), ("foods", words.FOODS),
                              ("things", words.THINGS), ("names", None), ("numbers", None), ("cities", None)))
    count = source.integer(2, 4)
    if pool:
        values = source.sample(pool, count)
    elif kind == "numbers":
        values = [source.integer(1, 99) for _ in range(count)]
    else:
        values = [(words.first_name if kind == "names" else words.city)(source) for _ in range(count)]
    statement = source.spin("[The {k} are {v}.|{k}: {v}|I have these {k}: {v}.|{v}|My {k} are {v}.|We have {v}.|There are {v}.]", k=kind, v=words.listing(values) if source.chance(0.6) else ", ".join(map(str, values)))
    return finish(source, "list", statement, [kind], {kind: values})


PARTS = {person: 4, pairs: 4, lists: 2}


def make(source):
    return source.weighted(PARTS)(source)
