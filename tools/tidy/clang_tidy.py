#!/usr/bin/env python3
"""clang-tidy over the sources of src/ and apps/, several in one run: clang_tidy.py BUILD-FOLDER (./check --full).

Most of a run goes into what a file includes: one by one the sources took 7 to 18 CPU seconds each, ten at once 5 to 30.
So sources of a folder that are compiled alike are included into one file, as far as no name that one of them has for
itself (in an unnamed namespace) means something in another or in its headers. Where such a file does not compile all
the same, its sources are looked at in halves. BUILD-FOLDER has compile_commands.json; the files made are in its folder
tidy. Exit status 0: nothing found. Standard library only.
"""

import collections
import concurrent.futures
import functools
import json
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES_MAX = 10  # more gain little, and no group should outlast all others
BROKEN = "[clang-diagnostic-error]"

Group = collections.namedtuple("Group", "command files own included")


def defined(lines):
    """What the lines define, by the word before the first bracket or sign. Meant for lines without indentation."""
    heads = (re.split(r"[({=;]|(?<!:):(?!:)| final\b", line)[0] for line in lines if re.match(r"\w", line))
    words = (re.findall(r"\w+", head) for head in heads)
    return {found[-1] for found in words if found} - {"boreas", "static_assert"}


def own_names(text):
    """What a file defines for itself alone: in its unnamed namespaces, static, as macro."""
    unnamed = re.findall(r"^namespace \{$(.*?)^\}  // namespace$", text, re.M | re.S)
    lines = [line for part in unnamed for line in part.splitlines()]
    lines += [line for line in text.splitlines() if line.startswith("static ")]
    return defined(lines) | set(re.findall(r"^#define (\w+)", text, re.M))


@functools.cache
def headers_of(path):
    """All headers of the project that a file includes, also through others."""
    found = set()
    for name in re.findall(r'^#include "([^"]+)"', path.read_text(), re.M):
        for header in (path.parent / name, ROOT / "src" / name, ROOT / name):
            if header.is_file():
                found |= {header} | headers_of(header)
                break
    return found


@functools.cache
def header_names(path):
    """What the headers define that a file includes."""
    return set().union(*(defined(header.read_text().splitlines()) for header in headers_of(path)))


def plain(command):
    """The compile command without output, source, precompiled headers, warnings and what makes code different."""
    words, kept = iter(shlex.split(command)), []
    for word in words:  # what launches the compiler, and the compiler
        if word.endswith("++"):
            break
    for word in words:
        if word in ("-Xclang", "-o", "-c"):
            next(words)
        elif not word.startswith(("-f", "-O", "-g", "-W")):
            kept.append(word)
    return tuple(kept) + ("-w",)


def grouped(build):
    """Groups of sources that are compiled alike and can be one file. Every source is in one group."""
    commands = {entry["file"]: entry["command"] for entry in json.loads((build / "compile_commands.json").read_text())}
    groups = []
    for name in sorted(commands):
        path = pathlib.Path(name)
        inside = any(path.is_relative_to(ROOT / folder) for folder in ("src", "apps"))
        if not inside or path.stem.endswith(("_test", "_fuzz")):
            continue
        command, own, included = plain(commands[name]), own_names(path.read_text()), header_names(path)
        for group in groups:
            if (group.command == command and group.files[0].parent == path.parent and len(group.files) < FILES_MAX
                    and not own & (group.own | group.included) and not included & group.own):
                break
        else:
            group = Group(command, [], set(), set())
            groups.append(group)
        group.files.append(path)
        group.own.update(own)
        group.included.update(included)
    return groups


def looked_at(folder, name, group):
    """clang-tidy's findings in a group, and its exit status."""
    source = folder / f"{name}.cc"
    source.write_text("".join(f'#include "{path}"  // NOLINT(bugprone-suspicious-include)\n' for path in group.files))
    words = ["clang-tidy", "--quiet", str(source), "--", *group.command]
    result = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    if BROKEN not in result.stdout or len(group.files) == 1:
        silent = result.returncode and not result.stdout
        return f"{name}: clang-tidy ended with {result.returncode}\n" if silent else result.stdout, result.returncode
    half = len(group.files) // 2
    print(f"{name}: its files do not compile as one, looked at in parts:\n{result.stdout}")
    parts = [looked_at(folder, f"{name}_{i}", group._replace(files=files))
             for i, files in enumerate((group.files[:half], group.files[half:]))]
    return "".join(found for found, _ in parts), max(status for _, status in parts)


def main():
    """Prints what is found."""
    build = pathlib.Path(sys.argv[1]).resolve()
    folder = build / "tidy"
    folder.mkdir(exist_ok=True)
    groups = grouped(build)
    print(f"clang-tidy: {sum(len(group.files) for group in groups)} files in {len(groups)} runs", flush=True)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda item: looked_at(folder, f"group_{item[0]}", item[1]), enumerate(groups)))
    sys.stdout.write("".join(found for found, _ in results))
    return 1 if any(status for _, status in results) else 0


if __name__ == "__main__":
    sys.exit(main())
