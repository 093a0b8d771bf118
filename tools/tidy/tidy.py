#!/usr/bin/env python3
"""tidy: the house rules as a test. Usage: tidy.py [--root DIR] [--no-format]

ctest and ./check run it. It prints `path:line: rule: message` for every finding and fails on any. tools/tidy/exempt.txt
is a ratchet: each line exempts one finding (`rule key`, sizes also `= value`), and a line that is no longer needed or
whose value has shrunk is itself an error. Rules: layer, cycle, dead (layers.py); file-lines, function-lines,
line-columns, head, name, todo, dead-comment, forbidden, doc-path (text_rules.py); file-bytes, format, exempt (here).
"""

import argparse
import fnmatch
import os
import re
import shutil
import subprocess
import sys

import cpp_text
import layers
import text_rules

CPP = ('.cc', '.h', '.cu', '.cuh')
SCRIPTS = ('.py', '.sh', '.mjs', '.js')
SCRIPT_NAMES = ('run', 'check', '.ci/run')
OUTSIDE = {'.git', 'node_modules', '__pycache__', 'corpus'}
FORMAT_MAJOR = '14'  # Debian 12's; other versions of clang-format lay out some lines otherwise


def tree(root):
    """All files of the project, as sorted paths relative to root."""
    found = []
    for folder, subfolders, names in os.walk(root):
        relative = os.path.relpath(folder, root)
        subfolders[:] = [s for s in subfolders if s not in OUTSIDE and not (relative == '.' and s.startswith('build'))]
        # In a git worktree .git is a file.
        found += [os.path.normpath(os.path.join(relative, name)) for name in names if name not in OUTSIDE]
    return sorted(found)


def read(root, path):
    with open(os.path.join(root, path), encoding='utf-8', errors='replace') as file:
        return file.read()


def matcher(paths):
    """exists(pattern) for documents: a file, a folder, or a glob over both."""
    everything = set(paths)
    for path in paths:
        while '/' in path:
            path = os.path.dirname(path)
            everything.add(path)
    return lambda pattern: pattern in everything or ('*' in pattern and bool(fnmatch.filter(everything, pattern)))


def file_findings(path, source, exists):
    """Every rule that needs one file only; sizes carry their value as a fifth element."""
    cpp = cpp_text.CppText(source) if path.endswith(CPP) else None
    script = path.endswith(SCRIPTS) or path in SCRIPT_NAMES
    if cpp or script:
        yield from text_rules.size_findings(path, source, cpp)
        yield from text_rules.head_findings(path, source, exists)
    if cpp:
        yield from text_rules.name_findings(path, cpp)
        yield from text_rules.comment_findings(path, cpp.comments)
    elif path.endswith(SCRIPTS + ('.cmake', 'CMakeLists.txt')) or script:
        yield from text_rules.comment_findings(path, text_rules.script_comments(source))
    yield from text_rules.forbidden_findings(path, source)
    if path.endswith('.md') and path != 'CHANGELOG.md':
        yield from text_rules.doc_findings(path, source, exists)


def format_findings(root, paths):
    """clang-format over all C++ files; the reason is printed where it cannot run."""
    tool = shutil.which('clang-format-' + FORMAT_MAJOR) or shutil.which('clang-format')
    version = subprocess.run([tool, '--version'], capture_output=True, text=True).stdout if tool else ''
    major = re.search(r'version (\d+)', version)
    if not major or major.group(1) != FORMAT_MAJOR:
        found = major.group(1) if major else 'absent'
        print(f'tidy: format not checked: clang-format {found}, the layout is of version {FORMAT_MAJOR}')
        return
    files = [path for path in paths if path.endswith(CPP) and not text_rules.is_table(path)]
    for start in range(0, len(files), 50):
        command = [tool, '--dry-run', *files[start:start + 50]]
        errors = subprocess.run(command, cwd=root, capture_output=True, text=True).stderr
        first = {}
        for path, line in re.findall(r'^(\S+?):(\d+):\d+: (?:warning|error)', errors, re.M):
            first.setdefault(path, int(line))
        for path, line in first.items():
            yield 'format', path, line, 'not as clang-format lays it out'


def findings(root, with_format=True):
    """Yields (rule, key, line, message[, value])."""
    paths = tree(root)
    exists, sources, cmake = matcher(paths), {}, {}
    for path in paths:
        size = os.path.getsize(os.path.join(root, path)) if os.path.exists(os.path.join(root, path)) else 0
        if size > text_rules.FILE_BYTES and not path.startswith('models/'):
            yield 'file-bytes', path, 1, f'{size} bytes, at most {text_rules.FILE_BYTES} outside models/', size
        elif size and not path.startswith('models/') and is_text(root, path):
            source = read(root, path)
            yield from file_findings(path, source, exists)
            if path.endswith(CPP):
                sources[path] = source
            elif os.path.basename(path) == 'CMakeLists.txt':
                cmake[os.path.dirname(path)] = source
    graph = layers.include_graph(sources)
    yield from layers.layer_findings(graph)
    yield from layers.cycle_findings(graph)
    yield from layers.dead_findings(graph, cmake)
    if with_format:
        yield from format_findings(root, paths)


def is_text(root, path):
    with open(os.path.join(root, path), 'rb') as file:
        return b'\0' not in file.read(4096)


def exemptions(root):
    """tools/tidy/exempt.txt: (rule, key) -> (line, largest value or None)."""
    path, found = os.path.join(root, 'tools/tidy/exempt.txt'), {}
    if not os.path.exists(path):
        return found
    for number, line in enumerate(read(root, 'tools/tidy/exempt.txt').split('\n'), 1):
        words = line.split('#')[0].split()
        if words:
            found[words[0], words[1]] = (number, int(words[3]) if len(words) == 4 and words[2] == '=' else None)
    return found


def judge(found, exempt):
    """Takes exempted findings out; adds one for each exemption that has nothing, or less, to excuse."""
    largest, left = {}, []
    for rule, key, line, message, *value in found:
        allowed = exempt.get((rule, key))
        if allowed and (not value or allowed[1] is None or value[0] <= allowed[1]):
            largest[rule, key] = max(largest.get((rule, key), 0), value[0] if value else 0)
        else:
            left.append((key.split(':')[0], line, rule, message))
            largest.setdefault((rule, key), allowed[1] if allowed and allowed[1] else 0)
    for (rule, key), (line, limit) in exempt.items():
        if (rule, key) not in largest:
            left.append(('tools/tidy/exempt.txt', line, 'exempt', f'no longer needed: {rule} {key}'))
        elif limit and largest[rule, key] < limit:
            message = f'{rule} {key} is now {largest[rule, key]}: lower it'
            left.append(('tools/tidy/exempt.txt', line, 'exempt', message))
    return sorted(left)


def main():
    arguments = argparse.ArgumentParser(description='checks the house rules of boreas')
    arguments.add_argument('--root', default=os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..'))
    arguments.add_argument('--no-format', action='store_true', help='leave clang-format out')
    options = arguments.parse_args()
    left = judge(findings(options.root, not options.no_format), exemptions(options.root))
    for path, line, rule, message in left:
        print(f'{path}:{line}: {rule}: {message}')
    print(f'tidy: {len(left)} findings')
    return 1 if left else 0


if __name__ == '__main__':
    sys.exit(main())
