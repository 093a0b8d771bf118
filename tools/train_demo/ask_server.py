"""Puts the held-out and the handwritten prompts to a server with OpenAI's API, at temperature 0, and scores the answers.

usage: ask_server.py URL HELD_OUT.jsonl RESULTS.json [--parallel 8] [--limit N] [--answers FILE]

URL: up to /v1. With --answers (evaluate.py's file) it also lists the prompts whose answer differs from there.
"""

import argparse
import concurrent.futures
import json
import pathlib
import urllib.error
import urllib.request

import handwritten
import score


def ask(url, model, request):
    body = {**request, "model": model, "temperature": 0, "max_tokens": 320}
    call = urllib.request.Request(url + "/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(call, timeout=300) as reply:
            message = json.load(reply)["choices"][0]["message"]
    except urllib.error.HTTPError as error:
        return {"content": f"HTTP {error.code}: {error.read().decode()[:300]}", "tool_calls": []}
    calls = []
    for made in message.get("tool_calls") or []:
        try:
            calls.append({"name": made["function"]["name"], "arguments": json.loads(made["function"]["arguments"])})
        except ValueError:
            calls.append({"name": made["function"]["name"], "arguments": made["function"]["arguments"]})
    return {"content": message.get("content"), "tool_calls": calls}


def differs(answer, output):
    expected = score.parse_output(output)
    if not score.calls_pass(answer["tool_calls"], expected["tool_calls"]):
        return True
    return not expected["tool_calls"] and (answer["content"] or "").strip() != (expected["content"] or "").strip()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("held_out", type=pathlib.Path)
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--parallel", type=int, default=8)
    parser.add_argument("--limit", type=int, default=10 ** 9)
    parser.add_argument("--answers", type=pathlib.Path)
    arguments = parser.parse_args()
    items = [json.loads(line) for line in arguments.held_out.read_text().splitlines()][:arguments.limit]
    items += list(handwritten.items())
    with urllib.request.urlopen(arguments.url + "/models", timeout=30) as reply:
        model = json.load(reply)["data"][0]["id"]
    with concurrent.futures.ThreadPoolExecutor(arguments.parallel) as pool:
        answers = list(pool.map(lambda item: ask(arguments.url, model, item["request"]), items))
    passed = score.score_all(answers, [i["check"] for i in items])
    rows = score.table(items, passed)
    score.print_table(rows)
    wrong = [{"id": i["id"], "part": i["part"], "answer": a} for i, a, p in zip(items, answers, passed) if not p]
    other = []
    if arguments.answers:
        known = {a["id"]: a["output"] for a in map(json.loads, arguments.answers.read_text().splitlines())}
        other = [{"id": i["id"], "answer": a, "expected": known[i["id"]]} for i, a in zip(items, answers)
                 if differs(a, known[i["id"]])]
        print(f"answers that differ from {arguments.answers.name}: {len(other)} of {len(items)}")
    arguments.results.write_text(json.dumps({"table": rows, "wrong": wrong, "differ": other}, ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main()
