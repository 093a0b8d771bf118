"""Forty prompts written by hand in wording that no generator here has; appended to the held-out set under the kind
"handwritten", with the kind they resemble as their part. Reported apart: no target is set on them.

usage: handwritten.py OUT.jsonl
"""

import json
import sys

from exchange import (check_calls, check_command, check_contains, check_json, check_number, check_python)
from held_out import api_message


def tool(name, description, **properties):
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {
        "type": "object", "properties": {k: {"type": t} for k, t in properties.items()}, "required": list(properties)}}}


WEATHER = tool("get_weather", "Get the current weather", city="string")
CLOCK = tool("get_time", "Get the local time", city="string")
MAIL = tool("send_email", "Send an email", to="string", subject="string")
READ = tool("read_file", "Read a file", path="string")
SHELL = tool("bash", "Run a command in the terminal", command="string")
STOCK = tool("check_stock", "How many pieces of an article are in store", article="string")
SCORE = tool("submit_score", "Submit the score of a player", player="string", points="integer")
LOCKS = tool("lock_door", "Lock a door of the house", door="string")


def ask(text, *before):
    return list(before) + [{"role": "user", "content": text}]


def turn(user, assistant):
    return [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]


def after(user, name, arguments, result):
    return [{"role": "user", "content": user},
            {"role": "assistant", "content": "", "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}]},
            {"role": "tool", "tool_call_id": "call_1", "content": result}]


PROMPTS = [
    # part, messages, tools, check
    ("tool_call", ask("I'm off to Lisbon. Do I need an umbrella?"), [WEATHER], check_calls([("get_weather", {"city": "Lisbon"})])),
    ("tool_call", ask("Could you check how warm it currently is in Helsinki?"), [WEATHER, CLOCK],
     check_calls([("get_weather", {"city": "Helsinki"})])),
    ("tool_call", ask("My sister lives in Osaka, what hour is it over there?"), [WEATHER, CLOCK],
     check_calls([("get_time", {"city": "Osaka"})])),
    ("tool_call", ask("Weather please, both for Rome and for Cairo."), [WEATHER],
     check_calls([("get_weather", {"city": "Rome"}), ("get_weather", {"city": "Cairo"})])),
    ("tool_call", ask("Drop a mail to anna@lab.org titled budget plan."), [MAIL],
     check_calls([("send_email", {"to": "anna@lab.org", "subject": "budget plan"})])),
    ("tool_call", ask("Take a look at src/main.py and tell me what it contains."), [READ, SHELL],
     check_calls([("read_file", {"path": "src/main.py"})])),
    ("tool_call", ask("In the terminal, do `git status`."), [READ, SHELL], check_calls([("bash", {"command": "git status"})])),
    ("tool_call", ask("Do we still have any lamp in store?"), [STOCK], check_calls([("check_stock", {"article": "lamp"})])),
    ("tool_call", ask("Player Nora reached 45 points, hand that in."), [SCORE],
     check_calls([("submit_score", {"player": "Nora", "points": 45})])),
    ("tool_call", ask("It is late. Would you lock the garage door?"), [LOCKS, MAIL],
     check_calls([("lock_door", {"door": "garage"})])),
    ("tool_answer", after("How warm is it in Bonn?", "get_weather", {"city": "Bonn"}, '{"temperature": 19, "sky": "cloudy"}'),
     [WEATHER], check_contains(["19"])),
    ("tool_answer", after("Do we have chairs?", "check_stock", {"article": "chair"}, '{"pieces": 37}'), [STOCK], check_contains(["37"])),
    ("tool_answer", after("What's the clock say in Lima?", "get_time", {"city": "Lima"}, "14:20"), [CLOCK], check_contains(["14:20"])),
    ("tool_answer", after("Which user is logged in?", "bash", {"command": "whoami"}, '{"output": "ingrid"}'), [SHELL],
     check_contains(["ingrid"])),
    ("tool_answer", after("What does notes.txt hold?", "read_file", {"path": "notes.txt"}, '{"content": "buy green paint"}'), [READ],
     check_contains(["buy green paint"])),
    ("tool_answer", after("Lock the cellar door.", "lock_door", {"door": "cellar"}, '{"error": "door is open"}'), [LOCKS],
     check_contains(["door is open"])),
    ("arithmetic", ask("Quick sum for me: 18 and 27."), None, check_number(45)),
    ("arithmetic", ask("If I take 15 away from 62, what remains?"), None, check_number(47)),
    ("arithmetic", ask("7 rows with 8 seats per row - how many seats is that?"), None, check_number(56)),
    ("arithmetic", ask("Put 305 and 48 into one number, as a sum."), None, check_number(353)),
    ("arithmetic", ask("A shelf holds 24 books. I put 9 more on it. How many books now?"), None, check_number(33)),
    ("arithmetic", ask("Among 14, 71 and 33, name the greatest."), None, check_number(71)),
    ("arithmetic", ask("90 - 56 would be how much?"), None, check_number(34)),
    ("recall", ask("Which city do I live in?", *turn("Hello! I'm Ruth and I live in Ghent.", "Hello! How can I help?"),
                   *turn("What is 2 + 2?", "2 + 2 = 4.")), None, check_contains(["Ghent"])),
    ("recall", ask("So what was the door code again?", *turn("The door code is 7315.", "Noted."),
                   *turn("Thanks!", "You are welcome.")), None, check_contains(["7315"])),
    ("recall", ask("Say my dog's name.", *turn("My dog is called Pixel and my cat is called Mona.", "Noted.")), None,
     check_contains(["Pixel"], ["Mona"])),
    ("recall", ask("When does project Heron end?", *turn("Project Heron ends on Friday. Project Crane ends on Monday.", "Noted.")), None,
     check_contains(["Friday"], ["Monday"])),
    ("recall", ask("Remind me which dish pleases me most.", *turn("My favorite food is pasta.", "Noted."),
                   *turn("What is the capital of Norway?", "The capital of Norway is Oslo.")), None, check_contains(["pasta"])),
    ("recall", ask("What port does the test server use?", *turn("Note that the test server listens on port 8123.", "Noted.")), None,
     check_contains(["8123"])),
    ("code", ask("Python please: a function triple(n) giving back three times n."), None,
     check_python("triple", [([4], 12), ([-1], -3), ([0], 0)])),
    ("code", ask("How would shout(s) look in Python if it must give s in capitals?"), None,
     check_python("shout", [(["abc"], "ABC"), (["x y"], "X Y")])),
    ("code", ask("Code a function total(items) that sums up a list."), None, check_python("total", [([[1, 2, 3]], 6), ([[]], 0)])),
    ("code", ask("I want is_big(n) in Python: True when n exceeds 100."), None,
     check_python("is_big", [([101], True), ([100], False)])),
    ("code", ask("Which command prints how many lines report.txt has?"), None, check_command("wc -l report.txt", "wc -l < report.txt")),
    ("code", ask("A folder photos is missing here. What do I type to get it?"), None, check_command("mkdir photos", "mkdir -p photos")),
    ("code", ask("Tell me the output of this:\nx = 6\ny = x * 3\nprint(y)"), None, check_contains(["18"])),
    ("json", ask("JSON with the keys name and age, please. Olaf, 52."), None, check_json({"name": "Olaf", "age": 52})),
    ("json", ask("Make this a JSON object with city and day: We meet in Turin on Sunday."), None,
     check_json({"city": "Turin", "day": "Sunday"})),
    ("json", ask("Put my fruit in JSON under the key foods: plum, pear."), None, check_json({"foods": ["plum", "pear"]})),
    ("json", ask("The host alpha answers on 8080, make that JSON: host, port."), None,
     check_json({"host": "alpha", "port": 8080})),
]


def items():
    assert len(PROMPTS) == 40
    for number, (part, messages, tools, check) in enumerate(PROMPTS, 1):
        request = {"messages": [api_message(m) for m in messages]}
        if tools:
            request["tools"] = tools
        yield {"id": f"handwritten-{number:02}", "kind": "handwritten", "part": part, "request": request, "check": check}


if __name__ == "__main__":
    with open(sys.argv[1], "w") as out:
        for item in items():
            out.write(json.dumps(item, ensure_ascii=False, separators=(",", ":")) + "\n")
