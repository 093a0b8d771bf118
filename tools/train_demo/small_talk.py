"""Greetings, questions about the model itself, a few capitals, and questions it must decline."""

import words
from exchange import check_contains, check_equals, simple

FIXED = {  # part: (questions, thinking, answers)
    "greeting": ("[Hi|Hello|Hey|Good morning|Good evening|Hi there|Hello there|hi|hello|Hey you][!|.|]",
                 "A greeting.", "Hello! How can I help?"),
    "mood": ("[How are you|How are you doing|How is it going|How do you do][?| today?]", "A question about me.",
             "I am fine, thank you. How can I help?"),
    "who": ("[[Who|What] are you|What is your name|What's your name|Tell me about yourself|Introduce yourself|Who am I talking "
            "to|Are you an AI|Are you human|Describe yourself][?|.]", "A question about me.",
            "I am Boreas Demo, a very small language model with 11 million parameters."),
    "can": ("[What can you do|What can I ask you|How can you help[ me|]|What are you good at|Help|What do you know|What should I "
            "ask you][?|]", "A question about what I can do.",
            "I can call tools, add numbers, remember facts, write short Python and shell code, and give JSON."),
    "thanks": ("[Thanks|Thank you|Thanks a lot|Great, thanks|Thank you very much|thx|Nice|Well done|Good job|Perfect][!|.|]",
               "Thanks.", "You are welcome."),
    "bye": ("[Bye|Goodbye|See you|Good night|See you later|That is all|That's all for today][!|.|]", "A farewell.", "Goodbye!"),
    "made": ("[Who made you|Who trained you|Where do you come from|How were you made|How big are you|How many parameters do you "
             "have|Which model are you][?|]", "A question about me.",
             "I was trained by the Boreas project on text made by its own scripts. I have 11 million parameters."),
}
CAPITALS = {
    "France": "Paris", "Germany": "Berlin", "Spain": "Madrid", "Italy": "Rome", "Norway": "Oslo", "Sweden": "Stockholm",
    "Denmark": "Copenhagen", "Finland": "Helsinki", "Austria": "Vienna", "Switzerland": "Bern", "Poland": "Warsaw",
    "Portugal": "Lisbon", "Greece": "Athens", "Ireland": "Dublin", "Hungary": "Budapest", "Belgium": "Brussels",
    "Japan": "Tokyo", "Canada": "Ottawa", "Egypt": "Cairo", "Turkey": "Ankara", "Peru": "Lima", "Cuba": "Havana",
    "Kenya": "Nairobi", "China": "Beijing", "India": "Delhi", "England": "London", "Russia": "Moscow"}
UNKNOWN = (
    "[Who|When did {n}] [wrote|painted|invented|discovered] the {a} {t}?", "Why is the {t} {c}?", "What is the meaning of {w}?",
    "[Tell me|Write] [a story|a poem|a joke|an essay] about [a|the] {a} {x}.", "Who won the {w} cup in {y}?",
    "What happened in {y}?", "How tall is the {w} tower?", "[Explain|Describe] [how|why] a {t} [works|is made].",
    "How far is the moon?", "What is the population of {k}?", "Who is the president of {k}?", "What do you think about {x}s?",
    "[Is|Was] {n} a good {j}?", "Which {x} is the best?", "What is the weather like[| now| today]?", "What time is it?")


def fixed(source):
    part = source.pick(list(FIXED))
    questions, thought, text = FIXED[part]
    return simple("chat", part, source.spin(questions), thought, text, check_equals(text), direct=True)


def capital(source):
    country = source.pick(list(CAPITALS))
    name = CAPITALS[country]
    question = source.spin("[What is|What's|Tell me|Name|Do you know] the capital of {c}[?|]", c=country)
    return simple("chat", "capital", question, f"{country}: {name}.", f"The capital of {country} is {name}.",
                  check_contains([name]), direct=True)


def unknown(source):
    question = source.spin(source.pick(UNKNOWN), n=words.first_name(source), a=source.pick(words.ADJECTIVES),
                           t=source.pick(words.THINGS), c=source.pick(words.COLORS), w=words.made_word(source),
                           x=source.pick(words.ANIMALS), y=source.integer(1000, 2030), k=source.pick(list(CAPITALS)),
                           j=source.pick(words.JOBS))
    return simple("chat", "unknown", question, "I do not know that.", "I do not know that. I am a very small model.",
                  check_contains(["do not know"]), direct=True, without_tools=True)


def repeat(source):
    text = words.phrase(source) if source.chance(0.7) else words.sentence(source)[:-1]
    question = source.spin("[Repeat|Say|Please say|Repeat after me|Echo][:|] [{t}|\"{t}\"]", t=text)
    return simple("chat", "repeat", question, "Repeat the text.", text, check_equals(text), direct=True)


PARTS = {fixed: 4, capital: 2, unknown: 3, repeat: 2}


def make(source):
    return source.weighted(PARTS)(source)
