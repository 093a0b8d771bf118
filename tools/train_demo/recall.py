"""Facts told early in a conversation and asked for later, with other talk between them (conversation.py puts it there).

A `Story` holds facts about invented people, places and things, or about the user; telling() and asking() make the
exchanges. Facts of one story share attributes or subjects, so that a question has tempting wrong answers.
"""

import words
from exchange import Exchange, answer, check_contains, check_equals, simple, user


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


# Natural ways to say and to ask for some attributes; {s} the subject, {v} the value.
SAID = {
    "age": ("{s} is {v} years old", "{s} is {v}", "{s} turned {v}"),
    "city": ("{s} lives in {v}", "{s} is from {v}", "{s} moved to {v}"), "job": ("{s} works as a {v}", "{s} is a {v}"),
    "favorite food": ("{s} likes {v}", "{s} loves {v}", "{s} likes to eat {v}"), "favorite color": ("{s} likes the color {v}",),
    "room": ("{s} is in room {v}", "{s} sits in room {v}"), "dog": ("{s} has a dog called {v}", "{s} has a dog named {v}"),
    "phone number": ("{s} can be called at {v}",), "boss": ("{s} works for {v}",), "car": ("{s} drives a {v} car",),
    "birthday month": ("{s} was born in {v}", "{s} has birthday in {v}"),
    "owner": ("{s} belongs to {v}", "{s} is owned by {v}"), "price": ("{s} costs {v}", "{s} costs {v} euros"),
    "deadline": ("{s} is due on {v}", "{s} must be done by {v}", "{s} ends on {v}"), "port": ("{s} listens on port {v}", "{s} runs on port {v}"),
    "location": ("{s} is in {v}", "{s} stands in {v}"), "color": ("{s} is {v}",), "version": ("{s} is at version {v}",),
    "code": ("{s} has the code {v}",), "password": ("{s} opens with {v}",), "branch": ("{s} is on branch {v}",),
}
ASKED = {
    "age": ("How old is {s}?", "What age is {s}?"), "city": ("Where does {s} live?", "Which city is {s} from?", "In which city is {s}?"),
    "job": ("What does {s} do?", "What does {s} work as?"),
    "favorite food": ("What does {s} like to eat?", "What food does {s} like?"), "favorite color": ("Which color does {s} like?",),
    "room": ("Where does {s} sit?", "Which room is {s} in?"), "dog": ("What is {s}'s dog called?", "How is {s}'s dog called?"),
    "phone number": ("How can I call {s}?", "What number does {s} have?"), "boss": ("Who does {s} work for?", "Who is the boss of {s}?"),
    "car": ("What color is {s}'s car?",), "birthday month": ("When was {s} born?", "In which month was {s} born?"),
    "owner": ("Who owns {s}?", "Whose is {s}?", "Who does {s} belong to?"), "price": ("What does {s} cost?", "How much is {s}?"),
    "deadline": ("When is {s} due?", "When must {s} be done?", "When does {s} end?"),
    "port": ("Which port does {s} use?", "What port is {s} on?", "On which port does {s} run?"), "location": ("Where is {s}?", "Where does {s} stand?"),
    "color": ("What color is {s}?", "Which color has {s}?"), "version": ("Which version is {s}?",),
    "code": ("Which code opens {s}?", "What code has {s}?"), "password": ("How do I open {s}?",), "branch": ("Which branch is {s} on?",),
    "budget": ("How much money has {s}?", "How much may {s} cost?"), "key": ("Which key has {s}?",),
}
MY_SAID = {
    "age": ("I am {v} years old", "I'm {v}"), "city": ("I live in {v}", "I am from {v}", "I'm from {v}"), "job": ("I work as a {v}", "I am a {v}", "I'm a {v}"),
    "favorite food": ("I like {v}", "I love {v}"), "favorite color": ("I like the color {v}",), "room": ("I am in room {v}",),
    "dog": ("I have a dog called {v}", "My dog is called {v}"), "name": ("I am {v}", "I'm {v}", "Call me {v}", "This is {v}", "Hello, I am {v}"),
    "boss": ("I work for {v}",), "car": ("I drive a {v} car",), "birthday month": ("I was born in {v}",), "phone number": ("You can call me at {v}",),
}
MY_ASKED = {
    "age": ("How old am I?", "What age am I?"), "city": ("Where do I live?", "Where am I from?", "In which city do I live?"), "job": ("What do I work as?", "What do I do?"),
    "favorite food": ("What do I like to eat?", "Which food do I like?"), "favorite color": ("Which color do I like?",), "room": ("Which room am I in?",),
    "dog": ("What is my dog called?", "How is my dog called?"), "name": ("Who am I?", "How am I called?", "What am I called?", "Do you know my name?"),
    "boss": ("Who do I work for?",), "car": ("What color is my car?",), "birthday month": ("When was I born?",), "phone number": ("How can you call me?",),
}


class Fact:
    def __init__(self, subject, attribute, value):
        self.subject, self.attribute, self.value = subject, attribute, value

    def told(self, source):
        table = MY_SAID if self.subject == "I" else SAID
        if self.attribute in table and source.chance(0.45):
            return source.spin(source.pick(table[self.attribute]), s=self.subject, v=self.value)
        if self.subject == "I":
            return source.spin("[My {a} is {v}|My {a}: {v}|my {a} is {v}]", a=self.attribute, v=self.value)
        return source.spin("[{s}'s {a} is {v}|The {a} of {s} is {v}|The {a} for {s} is {v}|{s} has the {a} {v}|{s}: {a} {v}]",
                           s=self.subject, a=self.attribute, v=self.value)

    def asked(self, source):
        table = MY_ASKED if self.subject == "I" else ASKED
        if self.attribute in table and source.chance(0.45):
            question = source.spin(source.pick(table[self.attribute]), s=self.subject)
            opening = source.pick(("", "", "", "And ", "Now, ", "So "))
            return opening + (question[0].lower() + question[1:] if opening else question)
        if self.subject == "I":
            return source.spin("[[What is|What's|Do you remember|Tell me|And what is|Say|Do you know|What was|Repeat] my {a}[?| again?]|My {a}?|I forgot my "
                               "{a}.]", a=self.attribute)
        return source.spin(
            "[[What is|What's|Tell me|What was|Do you remember|Recall|And what is|Now, what is|Do you know|So what was|Say|Give me] [{s}'s {a}|the {a} "
            "of {s}|the {a} for {s}][?| again?]|Which {a} did I give [you |]for {s}?|I forgot {s}'s {a}. What is it?|[What|Which] {a} [has|does] "
            "{s}[ have|]?|{s}'s {a}?|The {a} of {s}[?|, please.]|[I need|Please tell me] the {a} of {s}.]",
            s=self.subject, a=self.attribute)

    def statement(self):
        return f"Your {self.attribute} is {self.value}." if self.subject == "I" else (
            f"{self.subject}'s {self.attribute} is {self.value}.")


def subject_of(source, table):
    if table is PERSON:
        return words.first_name(source)
    if source.chance(0.4):
        return source.pick(THING_KINDS) + " " + words.made_word(source).capitalize()
    if source.chance(0.2):
        return "the " + source.pick((words.term(source), source.pick(words.THINGS), source.pick(words.ADJECTIVES) + " "
                                     + source.pick(words.THINGS)))
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
    
        text = source.spin("[[Please |]remember[ this|][: |, ]|Note[ this| that][: | ]|For later: |Keep in mind[: | that ]|Learn this: |Here is a fact: |"
                           "You should know: |Let me tell you: |Hi! |Hello. ||||]")
        text += source.pick((". ", ". ", ", ", " and ")).join(f.told(source) for f in facts) + "."
        text += source.spin("[||| Please remember that.| Remember it.| I will ask you later.| Just say ok.| Keep that in mind.| Note it.]")
        return Exchange("recall", "telling", [user(text), answer("I note what was told.", "Noted.")],
                        {1: {"type": "equals", "accepted": ["Noted."]}}, direct=True)

    def lines_for_system(self, source):
        """All facts as the text of a system message."""
        self.told_count = len(self.facts)
        return source.spin("[You help a user.|Facts:|Background.|]") + " " + " ".join(
            f.told(source) + "." for f in self.facts)

    def asking(self, source):
        told = self.facts[:self.told_count]
        if source.chance(0.06):
            return self.untold(source, told)
        fact = source.pick(told)
        others = [f.value for f in self.facts if f is not fact]
        statement = fact.statement()
        return simple("recall", "asking", fact.asked(source), f"I was told: {statement}",
                      statement, check_contains([fact.value], others), direct=True)

    def untold(self, source, told):
        """A question about something never said: another attribute of a subject, or another subject."""
        near = source.pick(told)
        table = list(PERSON) if near.subject == "I" or near.attribute in PERSON else list(THING)
        free = [a for a in table if all((f.subject, f.attribute) != (near.subject, a) for f in self.facts)]
        if near.subject == "I" or source.chance(0.5):
            fact = Fact(near.subject, source.pick(free), "")
        else:
            fact = Fact(words.made_word(source).capitalize(), near.attribute, "")
        return simple("recall", "untold", fact.asked(source), "I was not told that.", "You did not tell me that.",
                      check_equals("You did not tell me that."), direct=True)


def padding(source, sentences):
    """Text that only takes up room."""
    text = " ".join(words.sentence(source) for _ in range(sentences))
    question = source.spin("[Here is a text[, just say ok|]: {t}|{t}|Read this: {t}|A story. {t}]", t=text)
    return simple("recall", "padding", question, "A text without a question.", "I have read it.",
                  {"type": "equals", "accepted": ["I have read it."]}, direct=True)
