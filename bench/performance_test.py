#!/usr/bin/env python3
"""What docs/performance.md says was measured is on record: performance_test.py ROOT, run by ctest.

Each row of a table below is one line of bench/results/*.ndjson: all numbers in the columns looked at are values of that
line, rounded to the digits shown. The table of arms and parts is written by `boreas bench report`, whose own test
compares it.
"""

import glob
import json
import os
import re
import sys

ROUTED_LAYERS = 48  # of the published shape
# Beginning of a table's head, what recorded the lines, columns looked at, and whether all rows are of one commit.
TABLES = [
    ('| batch | context | tokens/s |', 'decode', range(0, 7), True),
    ('| prompt | first token |', 'prefill', range(0, 4), True),
    ('| workload | clients | requests |', 'serve', range(1, 7), False),
    ('| what | clients | tok/s |', 'serve', range(1, 6), False),
    ('| figure | measured | wanted |', 'serve_all', range(1, 2), True),
]
NUMBER = re.compile(r'(?<![\w.,])-?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\w)|(?<![\w.,])-?\d+(?:\.\d+)?(?!\w)')


def values(entry):
    """All numbers of a line, however deep."""
    if isinstance(entry, dict):  # the spread around a median is not shown
        entry = [value for key, value in entry.items() if not key.endswith(('_min', '_max'))]
    if isinstance(entry, list):
        return [value for part in entry for value in values(part)]
    return [float(entry)] if isinstance(entry, (int, float)) and not isinstance(entry, bool) else []


def values_shown(line):
    """A line's numbers in the units that tables have."""
    shown = values(line)
    if line.get('bench') == 'decode':
        shown += [line['bytes_per_step'] / 1e9, line.get('distinct_experts', 0) / ROUTED_LAYERS]
    return shown


def is_among(text, shown):
    text = text.replace(',', '')
    digits = len(text.partition('.')[2])
    return any(abs(value - float(text)) <= 0.5 * 10 ** -digits * (1 + 1e-9) for value in shown)


def records(root):
    lines = []
    for path in sorted(glob.glob(os.path.join(root, 'bench/results/*.ndjson'))):
        with open(path, encoding='utf-8') as file:
            lines += [json.loads(line) for line in file if line.strip()]
    return lines


def rows_of(document, head):
    """(line number, cells) of the table that begins so."""
    rows = []
    for number, line in enumerate(document.splitlines(), 1):
        if line.startswith(head):
            rows = [(number, None)]
        elif rows and not line.startswith('|'):
            break
        elif rows:
            rows.append((number, [cell.strip() for cell in line.strip().strip('|').split('|')]))
    return rows[2:]  # without head and rule


def findings(document, lines):
    for head, bench, columns, one_commit in TABLES:
        candidates = [(line, values_shown(line)) for line in lines if line.get('bench') == bench]
        rows = rows_of(document, head)
        if not rows:
            yield f'no table begins with "{head}"'
        commits = None
        for number, cells in rows:
            wanted = NUMBER.findall(' | '.join(cells[column] for column in columns if column < len(cells)))
            fitting = [line for line, shown in candidates if all(is_among(text, shown) for text in wanted)]
            if not fitting:
                yield f'docs/performance.md:{number}: no {bench} line on record has {", ".join(wanted)}'
                continue
            found = {line.get('commit') for line in fitting}
            commits = found if commits is None else commits & found
            if one_commit and not commits:
                yield f'docs/performance.md:{number}: of another commit than the rows above: {found}'
                break


def self_test():
    line = {'bench': 'prefill', 'commit': 'a', 'ms': 32.807, 'tok_s': 62425.3, 'n': {'deep': [5]}}
    table = '| prompt | first token |\n|---|---|\n| 5 | {} ms | 62,425 |\n\nend'
    def of_prefill(text):
        return [found for found in findings(text, [line]) if 'prefill' in found]
    assert not of_prefill(table.format('33')) and not of_prefill(table.format('32.8')), of_prefill(table.format('33'))
    assert of_prefill(table.format('34')) and of_prefill(table.format('32.9'))


def main():
    self_test()
    root = sys.argv[1]
    with open(os.path.join(root, 'docs/performance.md'), encoding='utf-8') as file:
        found = list(findings(file.read(), records(root)))
    print('\n'.join(found) or 'every row is on record')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
