"""Whole conversations: exchanges in a row, facts told and asked for later, tools beside those needed; and their text.

`build` is what training draws from and what held_out.py filters. A conversation's `checks` maps the index of an assistant
message to (kind, part, check): everything before that message is a prompt, and a right answer passes the check.
"""

import dataclasses
import functools
import json
import pathlib

import arithmetic
import json_tasks
import python_tasks
import recall
import shell_tasks
import small_talk
import tool_use
import words
from source import Source
from tool_catalogue import TABLE

TEMPLATE = pathlib.Path(__file__).resolve().parents[2] / "models" / "demo" / "chat_template.jinja"
ALONE = {arithmetic: 20, tool_use: 44, python_tasks: 16, shell_tasks: 9, json_tasks: 12, small_talk: 7}
FILLERS = {arithmetic: 5, tool_use: 2, python_tasks: 3, shell_tasks: 3, small_talk: 4, "padding": 5}
SYSTEM = ("Be brief.", "You are a helpful assistant.", "Answer in English.", "You help the staff of a small shop.",
          "You are a coding assistant.", "Be kind and short.", "Use tools where they help.", "You are an assistant in a terminal.")
FILLER_BYTES = 4600  # about 1,400 tokens


@dataclasses.dataclass
class Conversation:
    messages: list = dataclasses.field(default_factory=list)
    tools: list = dataclasses.field(default_factory=list)
    response_format: dict = None
    checks: dict = dataclasses.field(default_factory=dict)
    direct: set = dataclasses.field(default_factory=set)  # messages that need no thinking
    plain: set = dataclasses.field(default_factory=set)   # ids of user messages that other words may surround

    def add(self, exchange):
        start = len(self.messages)
        self.messages += exchange.messages
        if exchange.kind in ("arithmetic", "recall", "tool_call", "tool_answer") or exchange.part in ("python", "shell"):
            self.plain |= {id(m) for m in exchange.messages if m["role"] == "user" and "\n" not in m["content"]}
        self.response_format = self.response_format or exchange.response_format
        for at, check in exchange.checks.items():
            kind = exchange.kind
            if kind in ("tool_call", "tool_answer"):
                is_call = check["type"] == "tool_calls" or exchange.part == "none_fits"
                kind = "tool_call" if is_call else "tool_answer"
            self.checks[start + at] = (kind, exchange.part, check)
            if exchange.direct or check["type"] == "tool_calls":
                self.direct.add(start + at)
        names = {t["function"]["name"] for t in self.tools}
        self.tools += [t for t in exchange.tools if t["function"]["name"] not in names]

    def accepts(self, exchange):
        """Would this exchange be answered the same way here?"""
        if exchange.response_format and self.messages:
            return False
        names = {t["function"]["name"]: t for t in self.tools}
        if exchange.without_tools and names:
            return False
        if any(t["function"]["name"] in names for t in exchange.tools):
            return False
        if exchange.kind in ("arithmetic", "code") and names.keys() & CALCULATORS:
            return False
        return True


CALCULATORS = set(TABLE["calculate"][0].split())


def exchange_of(source, table):
    module = source.weighted(table)
    if module == "padding":
        return recall.padding(source, source.integer(4, 14))
    return module.make(source)


def add_decoys(source, conversation, exchanges):
    """Tools that nobody needs, where they cannot be the better answer."""
    if any(e.without_tools for e in exchanges):
        return
    count = source.pick((0, 0, 1, 1, 2, 3)) if conversation.tools else source.pick((0, 0, 0, 0, 1, 2))
    needed = [t["function"]["name"] for t in conversation.tools]
    families = {e for e, row in TABLE.items() if set(row[0].split()) & set(needed)}
    plain = any(e.kind in ("arithmetic", "code") for e in exchanges)
    for tool in tool_use.decoys(source, [], count):
        name = tool["function"]["name"]
        family = {e for e, row in TABLE.items() if name in row[0].split()}
        if name in needed or family & families or plain and name in CALCULATORS:
            continue
        conversation.tools.append(tool)
    conversation.tools = source.shuffled(conversation.tools)


def start(source):
    conversation = Conversation()
    if source.chance(0.2):
        conversation.messages.append({"role": "system", "content": source.pick(SYSTEM)})
    return conversation


def of_tasks(source, count):
    conversation, used = start(source), []
    for _ in range(count):
        exchange = exchange_of(source, ALONE)
        if not conversation.accepts(exchange) or any(e.response_format or e.without_tools and exchange.tools for e in used):
            continue
        if used and (any(e.kind in ("arithmetic", "code") for e in used)
                     and {t["function"]["name"] for t in exchange.tools} & CALCULATORS):
            continue
        used.append(exchange)
        conversation.add(exchange)
    if not used:
        return of_tasks(source, count)
    add_decoys(source, conversation, used)
    return conversation


def of_recall(source):
    """Facts, then other talk of 0 to FILLER_BYTES, then questions about the facts."""
    story = recall.Story(source, source.integer(1, 5))
    conversation, used = Conversation(), []
    if source.chance(0.2):
        conversation.messages.append({"role": "system", "content": story.lines_for_system(source)})
    else:
        while story.told_count < len(story.facts):
            conversation.add(story.telling(source, source.integer(1, 4)))
            if source.chance(0.5):
                break
    room = source.integer(0, FILLER_BYTES) if source.chance(0.85) else 0
    while room > 0:
        exchange = exchange_of(source, FILLERS)
        size = sum(len(m["content"]) + len(m.get("reasoning", "")) + 60 for m in exchange.messages)
        if size > room + 200 or not conversation.accepts(exchange) or exchange.without_tools and exchange.part != "unknown" or (
                exchange.tools and any(e.without_tools or e.kind in ("arithmetic", "code") for e in used)):
            room -= 40
            continue
        used.append(exchange)
        conversation.add(exchange)
        room -= size
        if story.told_count < len(story.facts) and source.chance(0.3):
            conversation.add(story.telling(source, 1))
    asked = set()
    for _ in range(source.pick((1, 1, 2, 3))):
        exchange = story.asking(source)
        if exchange.messages[1]["content"] not in asked:
            asked.add(exchange.messages[1]["content"])
            conversation.add(exchange)
    add_decoys(source, conversation, used)
    return conversation


SAFE = set("What What's How Please Write Give Show Tell Which Read Open Find Set Add Send Run Call Use Search Define Is "
           "Get Make List Book Order Turn Create Delete Remove Translate Convert Return Extract Repeat Say Who".split())
BEFORE = ("Hi, ", "Hello, ", "OK, ", "Please: ", "Thanks. ", "Now: ", "Hey, ", "Quick question: ", "Next: ", "I have a question. ", "Help me. ",
          "Good. ", "One more thing: ", "Well, ", "So, ", "Listen: ", "Dear assistant, ", "Sorry, ", "Hm. ", "Right. ")
BEHIND = (" Thanks!", " Thank you.", " Please.", " Thanks a lot.", " It is urgent.", " I am in a hurry.", " Be quick.", " :)", " I need it soon.")


def worn(source, text, plain):
    """What users do to their sentences. A plain text may get other words around it."""
    if source.chance(0.1) and text.split(" ", 1)[0] in SAFE:
        text = text[0].lower() + text[1:]
    if source.chance(0.1) and text[-1] in ".?" and len(text) > 3:
        text = text[:-1]
    if source.chance(0.07):
        text = source.pick(BEFORE) + text
    if plain and source.chance(0.06):
        text = (text if text[-1] in ".?!" else text + ".") + source.pick(BEHIND)
    if plain and source.chance(0.05):
        text = words.sentence(source) + " " + text
    return text


def build(source):
    kind = source.integer(0, 99)
    if kind < 45:
        conversation = of_tasks(source, 1)
    elif kind < 75:
        conversation = of_tasks(source, source.integer(2, 5))
    else:
        conversation = of_recall(source)
    for message in conversation.messages:
        if message["role"] == "user":
            message["content"] = worn(source, message["content"], id(message) in conversation.plain)
    return conversation


@functools.lru_cache(maxsize=None)
def template():
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    environment.filters["tojson"] = lambda value, **_: json.dumps(value, ensure_ascii=False)
    return environment.from_string(TEMPLATE.read_text())


def render(messages, tools=None, **more):
    return template().render(messages=messages, tools=tools or None, **more)


def without_reasoning(message):
    return {k: v for k, v in message.items() if k != "reasoning"}


def training_text(source, conversation):
    """The text of one training example. Assistant turns with a thinking pair are to be learnt, others are history.

    Six in ten: the whole conversation, thinking everywhere. Else one assistant turn is chosen, the thinking before it is
    dropped as most clients do, and the turn itself is with thinking or, if it needs none, with the empty pair.
    """
    more = {"tools": conversation.tools or None}
    if conversation.response_format:
        more["response_format"] = conversation.response_format
    if source.chance(0.6):
        return render(conversation.messages, **more)
    at = source.pick([i for i, m in enumerate(conversation.messages) if m["role"] == "assistant"])
    history = [without_reasoning(m) for m in conversation.messages[:at]]
    target = conversation.messages[at]
    if at not in conversation.direct or source.chance(0.6):
        return render(history + [target], **more)
    prompt = render(history, add_generation_prompt=True, reasoning=False, **more)
    whole = render(history + [without_reasoning(target)], **more)
    opened = "<|CHATBOT_TOKEN|>"
    return prompt + whole[whole.rindex(opened) + len(opened):]


def sample(seed, held_out=False):
    source = Source(seed, held_out)
    return training_text(source, build(source))
