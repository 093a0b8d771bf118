#!/usr/bin/env python3
"""Tests of tidy: a small clean tree has no findings; each planted violation is found, by its rule and in its file."""

import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import clang_tidy  # noqa: E402
import cpp_text  # noqa: E402
import tidy  # noqa: E402

CLEAN = {
    'README.md': '# x\n`src/model/model.h`, `model/model.cc`, [notes](docs/notes.md), `text/event-stream`, `a/b`.\n',
    'docs/notes.md': '# notes\nAll of `src/text/*.h`; `<name>_test.cc`; `/v1/models`; `build/boreas`.\n',
    'CHANGELOG.md': 'Gone: `src/base/gone.h`.\n',
    'CMakeLists.txt': 'add_subdirectory(src)\n',
    'src/base/check.h': '// head\nint check();\n',
    'src/base/CMakeLists.txt': 'boreas_library(base)\n',
    'src/model/CMakeLists.txt': 'boreas_library(model SUBFOLDERS families DEPENDS boreas_base)\n',
    'src/model/model.h': '// head\n#include "base/check.h"\nint model();\n',
    'src/model/model.cc': '// head\n#include "model/model.h"\n#include <vector>\nint model() { return 1; }\n',
    'src/model/families/one.cc': '// head\n#include "model/model.h"\nint one() { return 1; }\n',
    'src/model/model_test.cc': '#include "exec/cpu/cpu_executor.h"\n#include "text/private.h"\nTEST(A, B) {}\n',
    'src/text/CMakeLists.txt': 'boreas_library(text)\n',
    'src/text/text.h': '// head\n#include "exec/sampling.h"\nint text();\n',
    'src/text/private.h': '// head\n#include "base/check.h"\n',
    'src/exec/CMakeLists.txt': 'boreas_library(exec)\n',
    'src/exec/executor.h': '// head\n#include "exec/sampling.h"\nint run();\n',
    'src/exec/sampling.h': '// head\nint sample();\n',
    'src/exec/cpu/CMakeLists.txt': 'boreas_library(exec_cpu SUBFOLDERS ops)\n',
    'src/exec/cpu/cpu_executor.h': '// head\n#include "exec/executor.h"\n#include "program/task.h"\n',
    'src/exec/cpu/ops/norm.cc': '// head\n#include "program/ops/norm.h"\nint norm() { return 1; }\n',
    'src/exec/fake/fake_executor.h': '// head\n#include "exec/executor.h"\n',
    'src/program/task.h': '// head\nint task();\n',
    'src/program/ops/norm.h': '// head\nint norm();\n',
    'src/engine/CMakeLists.txt': 'boreas_library(engine)\n',
    'src/engine/engine.h': '// head\n#include "exec/executor.h"\n',
    'apps/CMakeLists.txt': 'file(GLOB sources *.cc)\n',
    'apps/main.cc': '//\n#include "engine/engine.h"\n#include "exec/fake/fake_executor.h"\n#include "text/text.h"\n',
    'tests/api/CMakeLists.txt': 'boreas_test(api_tests SOURCES api_test.cc)\n',
    'tests/api/api_test.cc': '// head\n',
}


def findings(files, with_format=False):
    """What tidy says of a tree with these files: {(path, rule)}."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(root, path), 'w', encoding='utf-8') as file:
                file.write(text)
        found = tidy.judge(tidy.findings(root, with_format), tidy.exemptions(root))
    return {(path, rule) for path, _, rule, _ in found}


def long_function(lines):
    return '// head\nnamespace a {\nint f(int x) {\n' + '  x += 1;\n' * (lines - 3) + '  return x;\n}\n}\n'


# What is planted: name -> (path, text or text to append, rule that must find it there).
PLANTED = {
    'engine includes an executor': ('src/engine/x.cc', '//\n#include "exec/cpu/cpu_executor.h"\n', 'layer'),
    'engine includes text': ('src/engine/x.cc', '// h\n#include "text/text.h"\n', 'layer'),
    'server includes the executor': ('src/server/server.cc', '// h\n#include "exec/executor.h"\n', 'layer'),
    'text includes the executor': ('src/text/x.cc', '// h\n#include "exec/executor.h"\n', 'layer'),
    'base includes model': ('src/base/x.cc', '// h\n#include "model/model.h"\n', 'layer'),
    'exec includes exec/cpu': ('src/exec/x.cc', '// h\n#include "exec/cpu/cpu_executor.h"\n', 'layer'),
    'cpu includes fake': ('src/exec/cpu/x.cc', '// h\n#include "exec/fake/fake_executor.h"\n', 'layer'),
    'app includes a private header': ('apps/x.cc', '// h\n#include "text/private.h"\n', 'layer'),
    'include of nothing': ('src/text/x.cc', '// h\n#include "text/gone.h"\n', 'layer'),
    'a folder that the house does not know': ('src/extra/x.cc', '// h\n', 'layer'),
    'folders include each other': ('src/exec/sampling.h', '// h\n#include "text/text.h"\n', 'cycle'),
    'a header nobody includes': ('src/text/lonely.h', '// head\n', 'dead'),
    'a source nobody builds': ('tests/api/lonely.cc', '// head\n', 'dead'),
    'a source in a sub-folder nobody names': ('src/model/other/x.cc', '// head\n', 'dead'),
    'a long file': ('src/text/x.cc', '// head\n' + 'int a;\n' * 500, 'file-lines'),
    'a long function': ('src/text/x.cc', long_function(71), 'function-lines'),
    'a long line': ('src/text/x.cc', '// head\n// ' + 'x' * 118 + '\n', 'line-columns'),
    'no head comment': ('src/text/x.cc', '#include <vector>\n// head\n', 'head'),
    'no head comment in a file without a header': ('apps/x.cc', '#include <vector>\n', 'head'),
    'no head comment in a script': ('tools/x.py', 'import os\n', 'head'),
    'banned word': ('src/text/x.cc', '// head\nint fast_path;\n', 'name'),
    'banned camel word': ('src/text/x.cc', '// head\nclass RequestScheduler {};\n', 'name'),
    'banned prefix': ('src/text/x.cc', '// head\nint new_size;\n', 'name'),
    'banned version': ('src/text/x.cc', '// head\nint parse_v2();\n', 'name'),
    'banned file name': ('src/text/string_utils.cc', '// head\n', 'name'),
    'a bare TODO': ('src/text/x.cc', '// head\n// TO' + 'DO: later\n', 'todo'),
    'a bare TODO in a script': ('tools/x.sh', '#!/bin/sh\n# head\n# TO' + 'DO: later\n', 'todo'),
    'code in a comment': ('src/text/x.cc', '// head\nint a;\n// (b)\n// compute(b, 3);\n', 'dead-comment'),
    'a path of a machine': ('docs/x.md', 'see /' + 'work/main\n', 'forbidden'),
    'a registry host': ('tests/npm/x.json', '{"a": "https://registry.npm' + 'js.org/x"}\n', 'forbidden'),
    'a gone path': ('docs/x.md', 'see `src/text/gone.cc`\n', 'doc-path'),
    'a gone path below src': ('docs/x.md', 'see `text/gone.cc`\n', 'doc-path'),
    'a gone link': ('docs/x.md', 'see [it](gone.md)\n', 'doc-path'),
    'a gone command': ('README.md', 'call `./gone`\n', 'doc-path'),
    'a big file': ('docs/x.txt', 'x' * (4 * 1024 * 1024 + 1), 'file-bytes'),
    'an exemption without need': ('tools/tidy/exempt.txt', 'head src/text/x.cc # why\n', 'exempt'),
}

ALLOWED = {
    'a function of 70 lines': ('src/text/x.cc', long_function(70)),
    'a long table': ('src/text/unicode_table.cc', '// head\n' + 'int a;\n' * 600),
    'a long line in a raw string': ('src/text/x.cc', '// head\nauto a = R"(\n' + 'x' * 200 + '\n)";\n'),
    'the keyword new': ('src/text/x.cc', '// head\nint* a = new int;\n'),
    'banned words in text': ('src/text/x.cc', '// the scheduler is fast\nauto a = "fast_path";\n'),
    'a TODO with its issue': ('src/text/x.cc', '// head\n// TO' + 'DO(#12): later\n'),
    'a source whose header has the head comment': ('src/text/text.cc', '#include "text/text.h"\n'),
    'prose with brackets': ('src/text/x.cc', '// head (as in the design);\nint a;\n// holds (see above);\n'),
    'a big model': ('models/tiny/x.txt', 'x' * (4 * 1024 * 1024 + 1)),
}


class TidyTest(unittest.TestCase):
    def test_clean_tree(self):
        self.assertEqual(findings(CLEAN), set())

    def test_planted(self):
        for name, (path, text, rule) in PLANTED.items():
            with self.subTest(name):
                self.assertIn((path, rule), findings({**CLEAN, path: text}))

    def test_allowed(self):
        for name, (path, text) in ALLOWED.items():
            with self.subTest(name):
                self.assertEqual(findings({**CLEAN, path: text}), set())

    def test_cycle_within_a_folder(self):
        files = {'src/text/a.h': '// h\n#include "text/b.h"\n', 'src/text/b.h': '// h\n#include "text/a.h"\n'}
        self.assertIn(('src/text/a.h', 'cycle'), findings({**CLEAN, **files}))

    def test_ratchet(self):
        tree = {**CLEAN, 'src/text/x.cc': long_function(90)}
        for limit, expected in ((90, set()), (89, {('src/text/x.cc', 'function-lines')}),
                                (91, {('tools/tidy/exempt.txt', 'exempt')})):
            with self.subTest(limit):
                exempt = f'function-lines src/text/x.cc:f = {limit}  # why\n'
                self.assertEqual(findings({**tree, 'tools/tidy/exempt.txt': exempt}), expected)

    def test_format(self):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            found = findings({**CLEAN, 'src/text/x.cc': '// head\nint   a ;\n'}, with_format=True)
        if 'not checked' in printed.getvalue():
            self.skipTest(printed.getvalue())
        self.assertIn(('src/text/x.cc', 'format'), found)

    def test_functions(self):
        source = '''
            namespace a { namespace {
            constexpr int kTable[] = {1, 2};
            struct S final : B<decltype(x)> {
              S() : a_{1}, b_(2) { x(); }
              explicit S(int) : a_{1} {}
              int get() const noexcept { return '{' + 1'000; }
              auto end() -> std::vector<int> { if (x) { y; } }
              bool operator==(const S&) const = default;
              std::function<void()> f_ = [] { return; };
            };
            template <class T = int> struct W { void in() {} };
            Result<int> go(int a,
                           int b) {
              return R"({{{)" + "}}" /* } */; // }
            }
            } }
            TEST(A, B) { }
            extern "C" int Fuzz(const char* d) { return 0; }
        '''
        names = [name for name, _, _ in cpp_text.functions(cpp_text.CppText(source).code)]
        self.assertEqual(names, ['S', 'S', 'get', 'end', 'in', 'go', 'A.B', 'Fuzz'])
        spans = {name: last - first + 1 for name, first, last in cpp_text.functions(cpp_text.CppText(source).code)}
        self.assertEqual(spans['go'], 4)


class ClangTidyGroups(unittest.TestCase):
    """Sources that clang-tidy sees as one must not change each other's meaning."""

    SOURCES = {
        'src/a/one.h': '#include "a/low.h"\nstruct One {};\n',
        'src/a/low.h': 'constexpr int kLow = 1;\n',
        'src/a/one.cc': '#include "a/one.h"\nnamespace {\nint helper(int x) {\n  return x;\n}\n}  // namespace\n',
        'src/a/two.cc': 'namespace {\nint helper(int x);\n}  // namespace\n',  # as in one.cc
        'src/a/three.cc': 'namespace {\nconstexpr int kLow = 2;\n}  // namespace\n',  # as in a header of one.cc
        'src/a/four.cc': 'namespace {\nstd::string other(int x) {\n}  // namespace\n',
        'src/a/wide.cc': 'int wide();\n',  # other options
        'src/b/five.cc': 'int five();\n',  # another folder
        'src/a/one_test.cc': 'int test();\n',
        'tests/six.cc': 'int six();\n',
    }

    def test_groups(self):
        with tempfile.TemporaryDirectory() as root:
            commands = []
            for name, text in self.SOURCES.items():
                path = pathlib.Path(root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
                if path.suffix != '.cc':
                    continue
                more = '-mavx2' if 'wide' in name else ''
                commands.append({'file': str(path), 'command':
                                 f'ccache -x /usr/bin/clang++ -I{root}/src -O1 -Xclang a.pch {more} -o a.o -c {path}'})
            pathlib.Path(root, 'compile_commands.json').write_text(json.dumps(commands))
            clang_tidy.headers_of.cache_clear()
            clang_tidy.header_names.cache_clear()
            with mock.patch.object(clang_tidy, 'ROOT', pathlib.Path(root)):
                groups = clang_tidy.grouped(pathlib.Path(root))
            self.assertEqual([[path.stem for path in group.files] for group in groups],
                             [['four', 'one'], ['three', 'two'], ['wide'], ['five']])
            self.assertEqual(groups[0].command, (f'-I{root}/src', '-w'))
            self.assertEqual(groups[2].command, (f'-I{root}/src', '-mavx2', '-w'))


if __name__ == '__main__':
    unittest.main()
