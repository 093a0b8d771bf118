"""What a task generator makes: one exchange, from the user's message to the assistant's last, and how to check it.

Messages are OpenAI's, with two liberties that conversation.py removes before anything leaves this folder: tool call
arguments are objects, and an assistant message holds its thinking under "reasoning". `checks` maps an assistant
message's index in `messages` to the check of score.py that a correct answer passes; only checked messages can become
held-out prompts.
"""

import dataclasses


@dataclasses.dataclass
class Exchange:
    kind: str                 # tool_call, tool_answer, arithmetic, recall, code, json, chat
    part: str                 # the generator's name for the variety, for tables of results
    messages: list
    checks: dict
    tools: list = dataclasses.field(default_factory=list)  # that this exchange needs declared
    response_format: dict = None
    without_tools: bool = False  # its answer would be another if tools of this kind were declared
    direct: bool = False         # answerable without thinking


def user(text):
    return {"role": "user", "content": text}


def answer(reasoning, text):
    return {"role": "assistant", "reasoning": reasoning, "content": text}


def simple(kind, part, question, reasoning, text, check, direct=False, **more):
    return Exchange(kind, part, [user(question), answer(reasoning, text)], {1: check}, direct=direct, **more)


# Checks, as score.py and the held-out file know them.
def check_number(value):
    """The last number in the answer is this one."""
    return {"type": "number", "value": value}


def check_equals(*accepted):
    """The answer, without white space at its ends, is one of these."""
    return {"type": "equals", "accepted": list(accepted)}


def check_contains(words, forbidden=()):
    """Each word stands in the answer, not inside a longer word or number, and none of the forbidden does."""
    return {"type": "contains", "all": [str(w) for w in words], "none": [str(w) for w in forbidden]}


def check_json(value):
    """The whole answer is JSON and equals this value."""
    return {"type": "json", "value": value}


def check_calls(calls):
    """Exactly these calls, names and arguments, in any order."""
    return {"type": "tool_calls", "calls": [{"name": n, "arguments": a} for n, a in calls]}


def check_python(function, cases):
    """The answer's code block defines this function (null: any one), and it returns what each case says."""
    return {"type": "python", "function": function, "cases": [{"args": a, "returns": r} for a, r in cases]}


def check_command(*accepted):
    """The answer's code block, trimmed, is one of these."""
    return {"type": "command", "accepted": list(accepted)}
