"""The rules that look at one file at a time: sizes, head comment, names, TODOs, dead comments, forbidden words, docs.

Called by tidy.py. Each rule yields (rule, key, line, message) or, for sizes, also the measured value; key is the path,
for functions `path:name`.
"""

import fnmatch
import os
import re

import cpp_text

FUNCTION_LINES, FILE_LINES, LINE_COLUMNS, FILE_BYTES = 70, 500, 120, 4 << 20
TABLES = ['*_table.h', '*_table.cc', '*_tables.h', '*_tables.cc', '*.inc', '*.generated.*', 'tests/golden/*/*',
          'tools/train_demo/*.py']  # the last: sentences of the training text, one a line
BANNED_WORDS = {'scheduler', 'fast', 'v2', 'utils'}
_STD_NAMES = re.compile(r'u?int_fast\d+_t|max_new_tokens')  # the standard library's, Hugging Face's
# In pieces, so that this file passes its own rule.
FORBIDDEN = {
    r'(?<![\w.~-])/' + r'work(?![\w-])': 'a path of somebody\'s machine',
    r'\.\./' + r'shared\b': 'a path of somebody\'s machine',
    r'\b(?:registry\.npm' + r'js\.org|deb\.deb' + r'ian\.org|archive\.ubu' + r'ntu\.com|py' + r'pi\.org)':
        'a registry host; name the package',
}
_DOC_TOKEN = re.compile(r'`([^`\s]+)`|\]\(([^)#\s]+)[^)]*\)')
_SRC_FOLDERS = {'base', 'model', 'text', 'program', 'exec', 'engine', 'server'}
_SUFFIX = re.compile(r'\.(?:cc|h|cu|cuh|py|md|sh|mjs|js|json|ndjson|cmake|txt|inc)$')
_CODE_COMMENT = re.compile(
    r'^//\s*(?:#include\b.*|return\b[^.]*;|(?:else\s+)?(?:if|for|while|switch)\s*\(.*\)\s*\{|\}\s*else\s*\{|'
    r'[\w:.\->\[\]]+\([^.]*\);|(?:const\s+)?(?:auto|int|bool|float|size_t|u?int\d+_t|std::\S+)[\s&*]+\w+\s*=.*;)\s*$')


def is_table(path):
    return any(fnmatch.fnmatch(path, pattern) for pattern in TABLES)


def size_findings(path, source, cpp):
    """Yields (rule, key, line, message, value)."""
    if is_table(path):
        return
    lines = source.split('\n')
    count = len(lines) - (lines[-1] == '')
    if count > FILE_LINES:
        yield 'file-lines', path, 1, f'{count} lines, at most {FILE_LINES}', count
    raw = cpp.raw_lines if cpp else ()
    longest = max(((len(line), number) for number, line in enumerate(lines, 1) if number not in raw), default=(0, 1))
    if longest[0] > LINE_COLUMNS:
        yield 'line-columns', path, longest[1], f'{longest[0]} columns, at most {LINE_COLUMNS}', longest[0]
    for name, first, last in cpp_text.functions(cpp.code) if cpp else ():
        if last - first + 1 > FUNCTION_LINES:
            length = last - first + 1
            message = f'{name} has {length} lines, at most {FUNCTION_LINES}'
            yield 'function-lines', f'{path}:{name}', first, message, length


def head_findings(path, source, exists):
    """A .cc with its own .h beside it has its head comment there; a unit test is told by its name."""
    if path.endswith('_test.cc') or (path.endswith('.cc') and exists(path[:-3] + '.h')):
        return
    first = next((line for line in source.split('\n') if line.strip() and not line.startswith('#!')), '')
    if not first.startswith(('//', '/*', '#', '"""')) or first.startswith('#include') or first.startswith('#pragma'):
        yield 'head', path, 1, 'no head comment: what it is for, who calls it, what always holds'


def name_findings(path, cpp):
    places = [(path, 1)]
    places += [(m.group(), cpp.code.count('\n', 0, m.start()) + 1) for m in re.finditer(r'\b[A-Za-z_]\w*', cpp.code)]
    seen = set()
    for name, line in places:
        words = [word.lower() for word in re.findall(r'[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+', os.path.basename(name))]
        bad = BANNED_WORDS.intersection(words) or ({'new'} if words[0:1] == ['new'] and len(words) > 1 else set())
        if bad and name not in seen and not _STD_NAMES.fullmatch(name):
            seen.add(name)
            yield 'name', f'{path}:{name}' if name != path else path, line, f'"{name}" holds the banned word {min(bad)}'


def comment_findings(path, comments):
    """comments: the file's text with everything but comments blanked."""
    for number, line in enumerate(comments.split('\n'), 1):
        if re.search(r'\b(?:TO' + r'DO|FIX' + r'ME|XX' + r'X)\b(?!.*#\d)', line):
            yield 'todo', path, number, 'a TODO carries an issue number, as in TODO(#12)'
        if path.endswith(('.cc', '.h', '.cu', '.cuh')) and _CODE_COMMENT.match(line.strip()):
            yield 'dead-comment', path, number, 'commented-out code'


def script_comments(source):
    """Python, shell and CMake: keeps what follows a # that starts a line or stands after a blank."""
    return re.sub(r'^(?:[^#\n]|(?<=\S)#)*', '', source, flags=re.M)


def forbidden_findings(path, source):
    for pattern, why in FORBIDDEN.items():
        for match in re.finditer(pattern, source):
            line = source.count('\n', 0, match.start()) + 1
            yield 'forbidden', path, line, f'"{match.group()}" is {why}'


def doc_findings(path, source, exists):
    """Paths named in a document exist. exists(pattern): is there a file or folder of the tree that matches?"""
    source = re.sub(r'^```.*?^```', lambda m: re.sub(r'[^\n]', ' ', m.group()), source, flags=re.M | re.S)
    for match in _DOC_TOKEN.finditer(source):
        name, line = match.group(1) or match.group(2), source.count('\n', 0, match.start()) + 1
        if match.group(2):
            found = '://' in name or exists(os.path.normpath(os.path.join(os.path.dirname(path), name)))
        else:
            found = not _names_a_path(name, exists) or _resolves(path, name, exists)
        if not found:
            yield 'doc-path', path, line, f'"{name}" does not exist'


def _names_a_path(name, exists):
    if '/' not in name.rstrip('/') or re.search(r'[<>{}$:@]|^/|^build/|^\./|^~', name):
        return bool(re.fullmatch(r'\./\w+', name))
    first = name.split('/')[0]
    return (exists(first) and first not in _SRC_FOLDERS) or (first in _SRC_FOLDERS and bool(_SUFFIX.search(name)))


def _resolves(path, name, exists):
    name = name.rstrip('/')
    places = (name, 'src/' + name, os.path.join(os.path.dirname(path), name))
    return any(exists(os.path.normpath(place)) for place in places)
