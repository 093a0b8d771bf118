"""Just enough of C++ for tidy: code without comments and literals, and the functions with their lines.

Called by tidy.py. Always holds: every text returned has the same length and the same newlines as the source, so
offsets and line numbers carry over. It is a reader of well-formed code, not a compiler.
"""

import re

_TOKEN = re.compile(
    r'(?P<line>//(?:[^\n\\]|\\.|\\\n)*)'
    r'|(?P<block>/\*.*?\*/)'
    r'|(?P<raw>\b(?:u8|[uUL])?R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)")'
    r'|(?P<string>"(?:[^"\\\n]|\\.|\\\n)*")'
    r"|(?P<number>\b\d(?:'?[\w.])*)"
    r"|(?P<char>'(?:[^'\\\n]|\\.)*')",
    re.S,
)


def _blank(text):
    return re.sub(r'[^\n]', ' ', text)


class CppText:
    """code: literals and comments blanked; comments: all but comments blanked; raw_lines: lines inside raw strings."""

    def __init__(self, source):
        code, comments, self.raw_lines, at = [], [], set(), 0
        for match in _TOKEN.finditer(source):
            before, text = source[at:match.start()], match.group()
            is_comment = match.lastgroup in ('line', 'block')
            if match.group('raw'):
                first = source.count('\n', 0, match.start()) + 1
                self.raw_lines.update(range(first, first + text.count('\n') + 1))
            literal = text if match.group('number') else '"' + _blank(text[1:-1]) + '"'
            code += [before, _blank(text) if is_comment else literal]
            comments += [_blank(before), text if is_comment else _blank(text)]
            at = match.end()
        self.code = ''.join(code + [source[at:]])
        self.comments = ''.join(comments + [_blank(source[at:])])


_TAIL = r'(?:\s*(?:const|noexcept(?:\s*\([^()]*\))?|override|final|mutable|try|&&?|->[^;={}]*|requires[^;{}]*))*\s*$'
_FUNCTION_HEAD = re.compile(r'\)' + _TAIL, re.S)
_INIT_LIST = re.compile(r'\)(?:\s*noexcept)?\s*:[^:].*[\w>})]\s*$', re.S)
_OPEN_INIT = re.compile(r'\)(?:\s*noexcept)?\s*:(?:[^:].*)?[\w>]\s*$', re.S)
_SCOPE_HEAD = re.compile(r'\bnamespace\b|\b(?:class|struct|union|enum)\b|\bextern\s*"', re.S)


def _without_preprocessor(code):
    return re.sub(r'^[ \t]*#(?:[^\n\\]|\\.|\\\n)*', lambda m: _blank(m.group()), code, flags=re.M | re.S)


def _kind(head):
    """What a brace opens after this head, at namespace or class level: 'function', 'scope' or 'value'."""
    if head.rstrip().endswith('}') and _INIT_LIST.search(head):
        return 'function'
    if _OPEN_INIT.search(head) and not _FUNCTION_HEAD.search(head):
        return 'value'
    if _FUNCTION_HEAD.search(head) and not re.search(r'=\s*$', head):
        return 'function'
    return 'scope' if _SCOPE_HEAD.search(head) and not head.rstrip().endswith('=') else 'value'


def _name(head):
    """The function's name; Suite.Case for a GoogleTest case."""
    test = re.search(r'\bTEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\s*\)', head)
    if test:
        return '.'.join(test.groups())
    names = re.findall(r'(~?\w+|operator\s*\S+?)\s*\(', head)
    return names[0] if names else '?'


def functions(code):
    """Yields (name, first line, last line) of each function body's definition; code is CppText.code."""
    code = _without_preprocessor(code)
    stack, head_start, inside, depth = [], 0, None, 0
    for match in re.finditer(r'[{};]', code):
        symbol, at = match.group(), match.start()
        if inside:
            depth += {'{': 1, '}': -1}.get(symbol, 0)
            if depth == 0:
                name, start = inside
                yield name, code.count('\n', 0, start) + 1, code.count('\n', 0, at) + 1
                inside, head_start = None, at + 1
        elif symbol == '{':
            head = code[head_start:at]
            kind = 'value' if stack and stack[-1] == 'value' else _kind(head)
            if kind == 'function':
                inside, depth = (_name(head), head_start + len(head) - len(head.lstrip())), 1
            else:
                stack.append(kind)
                head_start = at + 1 if kind == 'scope' else head_start
        elif symbol == '}':
            closed = stack.pop() if stack else 'scope'
            head_start = at + 1 if closed == 'scope' else head_start
        elif not stack or stack[-1] != 'value':
            head_start = at + 1
