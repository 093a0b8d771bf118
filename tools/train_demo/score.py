"""Scores answers exactly, by the checks of exchange.py. Used by evaluate.py; also a command.

usage: score.py HELD_OUT.jsonl ANSWERS.jsonl    # answers: {"id", "content", "tool_calls": [{"name", "arguments"}]}
"""

import concurrent.futures
import json
import re
import resource
import subprocess
import sys

PYTHON_SECONDS = 5
RUNNER = """
import json, sys
task = json.load(sys.stdin)
scope = {}
exec(task["code"], scope)
made = [v for k, v in scope.items() if callable(v) and not k.startswith("__")]
function = scope[task["function"]] if task["function"] else made[-1]
print(json.dumps([function(*args) for args in task["args"]]))
"""


def parse_output(text):
    """The model's text after the generation prompt, markers kept -> {"content", "tool_calls", "reasoning"}."""
    reasoning, body = "", text
    if "<|END_THINKING|>" in text:
        reasoning, body = text.split("<|END_THINKING|>", 1)
    answer = {"reasoning": reasoning, "content": None, "tool_calls": []}
    if "<|START_ACTION|>" in body:
        action = body.split("<|START_ACTION|>", 1)[1].split("<|END_ACTION|>", 1)[0]
        try:
            answer["tool_calls"] = [{"name": c["tool_name"], "arguments": c["parameters"]} for c in json.loads(action)]
        except (ValueError, KeyError, TypeError):
            answer["content"] = action
        return answer
    if "<|START_TEXT|>" in body:
        body = body.split("<|START_TEXT|>", 1)[1]
    answer["content"] = body.split("<|END_TEXT|>", 1)[0].split("<|END_OF_TURN_TOKEN|>", 1)[0]
    return answer


def same_json(a, b):
    """Equal values, where true is not 1 and 1.0 is 1."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_json(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same_json, a, b))
    return a == b


def stands_in(word, text):
    """Is `word` in `text`, with no letter, digit or underscore directly beside it?"""
    return re.search(r"(?<![A-Za-z0-9_])" + re.escape(word) + r"(?![A-Za-z0-9_])", text) is not None


def code_block(text):
    """The first fenced block; without a fence the whole text."""
    found = re.search(r"```[a-z0-9]*\n(.*?)\n?```", text, re.S)
    return (found.group(1) if found else text).strip()


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (PYTHON_SECONDS, PYTHON_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def python_passes(content, check):
    task = {"code": code_block(content), "function": check["function"], "args": [c["args"] for c in check["cases"]]}
    try:
        done = subprocess.run([sys.executable, "-I", "-S", "-c", RUNNER], input=json.dumps(task), text=True, capture_output=True,
                              timeout=2 * PYTHON_SECONDS, preexec_fn=limit, env={}, cwd="/")
        returned = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        return False
    return same_json(returned, [c["returns"] for c in check["cases"]])


def calls_pass(calls, wanted):
    left = [(c["name"], c["arguments"]) for c in calls]
    for call in wanted:
        match = next((i for i, (n, a) in enumerate(left) if n == call["name"] and same_json(a, call["arguments"])), None)
        if match is None:
            return False
        del left[match]
    return not left


def passes(answer, check):
    kind, content, calls = check["type"], answer.get("content"), answer.get("tool_calls") or []
    if kind == "tool_calls":
        return calls_pass(calls, check["calls"])
    if calls or content is None:
        return False
    content = content.strip()
    if kind == "number":
        numbers = re.findall(r"-?\d+(?:\.\d+)?", content.replace("\u2212", "-"))
        return bool(numbers) and float(numbers[-1]) == check["value"]
    if kind == "equals":
        return content in check["accepted"]
    if kind == "contains":
        return all(stands_in(w, content) for w in check["all"]) and not any(stands_in(w, content) for w in check["none"])
    if kind == "json":
        try:
            return same_json(json.loads(content), check["value"])
        except ValueError:
            return False
    if kind == "command":
        return code_block(content) in check["accepted"]
    if kind == "python":
        return python_passes(content, check)
    raise ValueError(f"unknown check {kind}")


def score_all(answers, checks, threads=8):
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        return list(pool.map(passes, answers, checks))


def table(items, passed):
    """[(kind, part or 'all', right, count)], the kinds' totals first."""
    counts = {}
    for item, good in zip(items, passed):
        for key in ((item["kind"], "all"), (item["kind"], item["part"]), ("total", "all")):
            right, count = counts.get(key, (0, 0))
            counts[key] = right + good, count + 1
    return [(*key, *counts[key]) for key in sorted(counts, key=lambda k: (k[0] == "total", k[0], k[1] != "all", k[1]))]


def print_table(rows):
    for kind, part, right, count in rows:
        print(f"{kind if part == 'all' else '':<14}{part:<14}{right:>6}/{count:<6}{100 * right / count:6.1f} %")


def main():
    items = [json.loads(line) for line in open(sys.argv[1])]
    answers = {a["id"]: a for a in map(json.loads, open(sys.argv[2]))}
    passed = score_all([answers.get(i["id"], {}) for i in items], [i["check"] for i in items])
    print_table(table(items, passed))


if __name__ == "__main__":
    main()
