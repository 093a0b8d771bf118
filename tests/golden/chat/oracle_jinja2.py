#!/usr/bin/python3
"""First oracle of the chat template tests: Debian's python3-jinja2 with Hugging Face's settings.

usage: oracle_jinja2.py CASES RESULTS
CASES has one JSON object a line: {"template": ..., "variables": {...}, "now": seconds since 1970}; RESULTS gets one
line for each, {"ok": true, "text": ...} or {"ok": false, "error": ...}.
"""
import json
import os
import sys
import time
from datetime import datetime

from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    """{% generation %}: marks what the assistant wrote; printing is not changed."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_pass"), [], [], body).set_lineno(line)

    def _pass(self, caller):
        return caller()


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise TemplateError(message)


def make_environment():
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = raise_exception
    return environment


def main():
    os.environ["TZ"] = "UTC"
    time.tzset()
    environment = make_environment()
    compiled = {}
    with open(sys.argv[1], encoding="utf-8") as cases, open(sys.argv[2], "w", encoding="utf-8") as results:
        for line in cases:
            case = json.loads(line)
            now = datetime.fromtimestamp(case["now"])
            environment.globals["strftime_now"] = now.strftime
            try:
                source = case["template"]
                if source not in compiled:
                    compiled[source] = environment.from_string(source)
                compiled[source].globals["strftime_now"] = now.strftime
                result = {"ok": True, "text": compiled[source].render(**case["variables"])}
                json.dumps(result, ensure_ascii=False).encode("utf-8")
            except Exception as error:  # whatever the template did wrong is the answer
                result = {"ok": False, "error": f"{type(error).__name__}: {error}"}
            results.write(json.dumps(result, ensure_ascii=False) + "\n")


main()
