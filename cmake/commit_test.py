#!/usr/bin/env python3
"""What cmake/commit.cmake says of trees: clean, changed, without git; and that it writes only what is news."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().with_name("commit.cmake")
CMAKE = sys.argv.pop(1) if len(sys.argv) > 1 else "cmake"


class Commit(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.tree = pathlib.Path(scratch.name) / "tree"
        self.header = pathlib.Path(scratch.name) / "commit.h"
        (self.tree / "src").mkdir(parents=True)
        (self.tree / "docs").mkdir()
        (self.tree / "src/a.cc").write_text("int a;\n")
        (self.tree / "docs/a.md").write_text("a\n")

    def git(self, *arguments):
        identity = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false"]
        return subprocess.run(["git", "-C", self.tree, *identity, *arguments], check=True, capture_output=True,
                              text=True).stdout.strip()

    def commit(self):
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "a")
        return self.git("rev-parse", "--short=12", "HEAD")

    def says(self):
        subprocess.run([CMAKE, f"-DSOURCE={self.tree}", f"-DOUTPUT={self.header}", "-P", SCRIPT], check=True)
        name, macro, value = self.header.read_text().split()
        self.assertEqual((name, macro), ("#define", "BOREAS_COMMIT"))
        return value.strip('"')

    def test_without_git(self):
        self.assertEqual(self.says(), "unknown")

    def test_clean_and_changed(self):
        head = self.commit()
        self.assertEqual(len(head), 12)
        self.assertEqual(self.says(), head)
        (self.tree / "docs/a.md").write_text("no part of the binary\n")
        self.assertEqual(self.says(), head)
        (self.tree / "src/b.cc").write_text("int b;\n")  # not added, but built all the same
        self.assertEqual(self.says(), head + "-dirty")
        (self.tree / "src/b.cc").unlink()
        (self.tree / "src/a.cc").write_text("int c;\n")
        self.assertEqual(self.says(), head + "-dirty")
        later = self.commit()
        self.assertNotEqual(later, head)
        self.assertEqual(self.says(), later)

    def test_no_news_are_not_written(self):
        self.commit()
        self.says()
        before = self.header.stat().st_mtime_ns
        self.says()
        self.assertEqual(self.header.stat().st_mtime_ns, before)


if __name__ == "__main__":
    unittest.main()
