"""Writes the held-out set: prompts whose names, values and numbers training never saw in that role, and how to check
the answers.

usage: held_out.py OUT.jsonl [--seed held-out-1]

One JSON object a line: {"id", "kind", "part", "request": {"messages", "tools"?, "response_format"?}, "check"}; the request
is an OpenAI chat request without model and sampling, arguments of past calls are JSON text, past thinking is left out.
The checks are described in README.md. The same seed writes the same bytes.
"""

import argparse
import json

import conversation
from source import Source

COUNTS = {"tool_call": 300, "tool_answer": 240, "arithmetic": 240, "recall": 240, "code": 300, "json": 200, "chat": 200}


def api_message(message):
    message = {k: v for k, v in message.items() if k != "reasoning"}
    if "tool_calls" in message:
        message["tool_calls"] = [{**c, "function": {"name": c["function"]["name"], "arguments": json.dumps(
            c["function"]["arguments"], ensure_ascii=False)}} for c in message["tool_calls"]]
    return message


def template_messages(messages):
    """The other way: what the chat template wants."""
    out = []
    for message in messages:
        if "tool_calls" in message:
            message = {**message, "tool_calls": [{**c, "function": {**c["function"], "arguments": json.loads(
                c["function"]["arguments"])}} for c in message["tool_calls"]]}
        out.append(message)
    return out


def prompt_text(request, **more):
    return conversation.render(template_messages(request["messages"]), request.get("tools"), add_generation_prompt=True,
                               **({"response_format": request["response_format"]} if "response_format" in request else {}), **more)


def items(seed):
    left, number = dict(COUNTS), 0
    parts_left = {("recall", "telling"): 0, ("recall", "padding"): 0, ("code", "shell"): 80, ("code", "output"): 90}
    while any(left.values()):
        number += 1
        source = Source(f"{seed}:{number}", held_out=True)
        try:
            talk = conversation.build(source)
        except ValueError:  # a kind with no held-out value
            continue
        at = source.pick(list(talk.checks))
        kind, part, check = talk.checks[at]
        if not left[kind] or parts_left.get((kind, part), 1) == 0:
            continue
        left[kind] -= 1
        if (kind, part) in parts_left:
            parts_left[kind, part] -= 1
        request = {"messages": [api_message(m) for m in talk.messages[:at]]}
        if talk.tools:
            request["tools"] = talk.tools
        if talk.response_format:
            request["response_format"] = talk.response_format
        yield {"id": f"{kind}-{COUNTS[kind] - left[kind]:03}", "kind": kind, "part": part, "request": request, "check": check}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--seed", default="held-out-1")
    arguments = parser.parse_args()
    made = sorted(items(arguments.seed), key=lambda item: item["id"])
    with open(arguments.out, "w") as file:
        for item in made:
            file.write(json.dumps(item, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(f"{len(made)} prompts: {COUNTS}")


if __name__ == "__main__":
    main()
