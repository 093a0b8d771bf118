"""Facts told early in a conversation and asked for later, with other talk between them (conversation.py puts it there).

A `Story` holds facts about invented people, places and things, or about the user; telling() and asking() make the
exchanges. Facts of one story share attributes or subjects, so that a question has tempting wrong answers.
"""

import words
from exchange import Exchange, answer, check_contains, simple, user


def small_number(source):
    return str(source.integer(2, 99))


PERSON = {  # attribute: maker of its value
    "age": small_number, "city": words.city, "job": lambda s: s.pick(words.JOBS),
    "favorite color": lambda s: s.pick(words.COLORS), "favorite food": lambda s: s.pick(words.FOODS),
    "phone number": words.phone, "room": small_number, "birthday month": lambda s: s.pick(words.MONTHS),
    "dog": lambda s: words.first_name(s), "boss": lambda s: words.first_name(s), "car": lambda s: s.pick(words.COLORS),
}
THING = {
    "code": words.code_number, "password": words.made_word, "owner": words.first_name, "budget": words.code_number,
    "port": words.code_number, "deadline": lambda s: s.pick(words.WEEKDAYS), "color": lambda s: s.pick(words.COLORS),
    "serial number": words.code_mixed, "price": small_number, "location": words.city, "branch": words.identifier,
    "version": lambda s: f"{s.integer(0, 9)}.{s.integer(0, 20)}", "key": words.code_mixed,
}
THING_KINDS = "project server building locker team machine ship package room account".split()


class Fact:
    def __init__(self, subject, attribute, value):
        self.subject, self.attribute, self.value = subject, attribute, value

    def told(self, source):
        if self.subject == "I":
            return source.spin("[My {a} is {v}|My {a}: {v}|my {a} is {v}]", a=self.attribute, v=self.value)
        return source.spin("[{s}'s {a} is {v}|The {a} of {s} is {v}|The {a} for {s} is {v}|{s}'s {a} is {v}]",
                           s=self.subject, a=self.attribute, v=self.value)

    def asked(self, source):
        if self.subject == "I":
            return source.spin("[What is|What's|Do you remember|Tell me|And what is] my {a}?", a=self.attribute)
        return source.spin(
            "[[What is|What's|Tell me|What was|Do you remember|Recall|And what is|Now, what is] [{s}'s {a}|the {a} of {s}|"
            "the {a} for {s}]?|Which {a} did I give [you |]for {s}?|I forgot {s}'s {a}. What is it?]",
            s=self.subject, a=self.attribute)

    def statement(self):
        return f"Your {self.attribute} is {self.value}." if self.subject == "I" else (
            f"{self.subject}'s {self.attribute} is {self.value}.")


def subject_of(source, table):
    if table is PERSON:
        return words.first_name(source)
    if source.chance(0.4):
        return source.pick(THING_KINDS) + " " + words.made_word(source).capitalize()
    return words.made_word(source).capitalize()


class Story:
    def __init__(self, source, facts):
        table = source.pick((PERSON, THING))
        style = source.integer(0, 3)  # 0: one subject, 1: one attribute, 2: mixed, 3: the user
        subjects, pairs = [], set()
        self.facts, self.told_count = [], 0
        while len(self.facts) < facts:
            if style == 3:
                subject, attribute = "I", source.pick(list(PERSON) + ["name", "name"])
            elif style == 0 and subjects:
                subject, attribute = subjects[0], source.pick(list(table))
            elif style == 1 and self.facts:
                subject, attribute = subject_of(source, table), self.facts[0].attribute
            else:
                subject, attribute = subject_of(source, table), source.pick(list(table))
            if (subject, attribute) in pairs:
                continue
            value = words.first_name(source) if attribute == "name" else (PERSON if style == 3 else table)[attribute](source)
            if any(f.value == value for f in self.facts):
                continue
            pairs.add((subject, attribute))
            subjects.append(subject)
            self.facts.append(Fact(subject, attribute, value))

    def telling(self, source, count):
        """The next `count` facts, as one exchange."""
        facts = self.facts[self.told_count:self.told_count + count]
        self.told_count += len(facts)
    
        text = source.spin("[[Please |]remember[ this|]: |Note[ this|]: |For later: |Keep in mind: |||]")
        text += ". ".join(f.told(source) for f in facts) + "."
        text += source.spin("[| Please remember that.| Remember it.| I will ask you later.| Just say ok.]")
        return Exchange("recall", "telling", [user(text), answer("I note what was told.", "Noted.")],
                        {1: {"type": "equals", "accepted": ["Noted."]}}, direct=True)

    def lines_for_system(self, source):
        """All facts as the text of a system message."""
        self.told_count = len(self.facts)
        return source.spin("[You help a user.|Facts:|Background.|]") + " " + " ".join(
            f.told(source) + "." for f in self.facts)

    def asking(self, source):
        fact = source.pick(self.facts[:self.told_count])
        others = [f.value for f in self.facts if f is not fact]
        statement = fact.statement()
        return simple("recall", "asking", fact.asked(source), f"I was told: {statement}",
                      statement, check_contains([fact.value], others), direct=True)


def padding(source, sentences):
    """Text that only takes up room."""
    text = " ".join(words.sentence(source) for _ in range(sentences))
    question = source.spin("[Here is a text[, just say ok|]: {t}|{t}|Read this: {t}|A story. {t}]", t=text)
    return simple("recall", "padding", question, "A text without a question.", "I have read it.",
                  {"type": "equals", "accepted": ["I have read it."]}, direct=True)
