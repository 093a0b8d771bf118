"""Who may include whom, as data, and the checks over the include graph: layers, cycles, dead files.

Called by tidy.py. A folder's files include their own folder, base, and what ALLOWED grants them of the others: first of
all the one door of each. Tests (*_test.cc, *_fuzz.cc, tests/, bench/, tools/) may include anything.
"""

import posixpath
import re

DOORS = {
    'model': 'model/model.h',
    'text': 'text/text.h',
    'program': 'program/compile.h',
    'exec': 'exec/executor.h',
    'engine': 'engine/engine.h',
    'server': 'server/server.h',
}
_EXECUTOR = ['exec/executor.h', 'exec/sampling.h', 'exec/trace.h', 'model/model.h', 'program/compile.h',
             'program/task.h', 'program/op_list.h', 'program/ops/*.h']
ALLOWED = {
    'base': [],
    'model': [],
    'program': ['model/model.h'],
    'text': ['exec/sampling.h'],
    'exec': [],
    'exec/cpu': _EXECUTOR,
    'exec/cuda': [*_EXECUTOR, 'exec/sampling_math.h', 'model/dummy_weights.h', 'program/layout.h', 'program/pipeline.h',
                  'program/weight_tiles.h'],
    'exec/fake': _EXECUTOR,
    'engine': ['exec/executor.h', 'exec/sampling.h'],
    'server': ['engine/engine.h', 'text/text.h', 'exec/sampling.h'],
    'apps': [*DOORS.values(), 'exec/sampling.h', 'exec/trace.h', 'exec/cpu/cpu_executor.h',
             'exec/fake/fake_executor.h', 'exec/cuda/cuda_executor.h'],
}
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)


def is_test(path):
    return path.startswith(('tests/', 'bench/', 'tools/')) or re.search(r'_(test|fuzz)\.(cc|cu)$', path) is not None


def folder_of(path):
    """The layer of a source file: 'apps', 'model', 'exec/cpu', ...; None outside src/ and apps/."""
    parts = path.split('/')
    if parts[0] == 'apps':
        return 'apps'
    if parts[0] != 'src' or len(parts) < 3:
        return None
    two = '/'.join(parts[1:3])
    return two if len(parts) > 3 and two in ALLOWED else parts[1]


def include_graph(sources):
    """sources: path -> text. Returns path -> [(line, included path as written, file of the tree or None)]."""
    graph = {}
    for path, text in sources.items():
        graph[path] = []
        for match in _INCLUDE.finditer(text):
            name = match.group(1)
            beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
            target = next((p for p in ('src/' + name, name, beside) if p in sources), None)
            graph[path].append((text.count('\n', 0, match.start()) + 1, name, target))
    return graph


def layer_findings(graph):
    for path, includes in graph.items():
        folder = folder_of(path)
        if folder is None or is_test(path):
            continue
        if folder not in ALLOWED:
            yield 'layer', path, 1, f'src/{folder} is not a folder of the house; a new one needs a decision page'
            continue
        for line, name, target in includes:
            if target is None:
                yield 'layer', path, line, f'"{name}" is no file of this tree (system headers go in <>)'
            elif not _may_include(folder, target):
                yield 'layer', path, line, f'{folder} may not include "{name}" (see ALLOWED in tools/tidy/layers.py)'


def _may_include(folder, target):
    other = folder_of(target)
    if other in (folder, 'base'):
        return True
    inside = target[len('src/'):] if target.startswith('src/') else target
    return any(re.fullmatch(re.escape(grant).replace(r'\*', '[^/]*'), inside) for grant in ALLOWED[folder])


def cycle_findings(graph):
    """Include cycles between files, and cycles between folders."""
    files = {path: sorted({t for _, _, t in includes if t}) for path, includes in graph.items() if not is_test(path)}
    folders = {}
    for path, targets in files.items():
        own = folder_of(path)
        if own:
            others = {folder_of(target) for target in targets} - {own, None}
            folders.setdefault(own, set()).update(others)
    for edges in (files, {folder: sorted(targets) for folder, targets in folders.items()}):
        for cycle in _cycles(edges):
            yield 'cycle', cycle[0], 1, 'include cycle: ' + ' -> '.join(cycle)


def _cycles(edges):
    done = set()
    for root in sorted(edges):
        trail, on_trail, todo = [], set(), [(root, None)]
        while todo:
            node, leave = todo.pop()
            if leave:
                trail.pop()
                on_trail.discard(node)
                done.add(node)
            elif node in on_trail:
                yield trail[trail.index(node):] + [node]
            elif node not in done:
                trail.append(node)
                on_trail.add(node)
                todo.append((node, True))
                todo.extend((target, None) for target in reversed(edges.get(node, ())))


def dead_findings(graph, cmake_texts):
    """Headers that nobody includes, sources that no CMakeLists.txt builds. cmake_texts: folder -> CMakeLists.txt."""
    included = {target for path, includes in graph.items() for _, _, target in includes if target != path}
    for path in graph:
        if path.endswith(('.h', '.cuh')):
            if path not in included:
                yield 'dead', path, 1, 'nobody includes this header'
        elif path not in included and not _is_built(path, cmake_texts):
            yield 'dead', path, 1, 'no CMakeLists.txt builds this file'


def _is_built(path, cmake_texts):
    folder, name = posixpath.split(path)
    below = ''
    while True:
        text = cmake_texts.get(folder)
        if text is not None:
            if re.search(r'(?<![\w/])' + re.escape(posixpath.join(below, name)) + r'(?!\w)', text):
                return True
            if below == '' and re.search(r'boreas_library\(|GLOB', text):
                return True
            listed = re.search(r'SUBFOLDERS((?:\s+[\w/]+)+)', text)
            return bool(below and listed and below in listed.group(1).split()) or bool(below and 'GLOB_RECURSE' in text)
        if not folder:
            return False
        folder, last = posixpath.split(folder)
        below = posixpath.join(last, below) if below else last
