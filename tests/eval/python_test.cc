// The sandbox: what Python may not do in it, and that nothing it does keeps us waiting.
#include "apps/eval_python.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/eval/temporary.h"

namespace boreas {
namespace {

class EvalPython : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<PythonSandbox>> made = PythonSandbox::create();
    if (!made.ok()) GTEST_SKIP() << made.error().message;
    sandbox_ = std::move(*made);
  }

  // What a program prints, errors of Python by name.
  std::string run(const std::string& statements) {
    std::string program = "try:\n";
    std::istringstream lines(statements);
    for (std::string line; std::getline(lines, line);) program += "  " + line + "\n";
    program += "except BaseException as e:\n  print(type(e).__name__)\n";
    const PythonSandbox::Outcome outcome = sandbox_->run_program(program, "");
    return outcome.end == PythonSandbox::End::kKilled ? "killed" : outcome.output;
  }

  std::unique_ptr<PythonSandbox> sandbox_;
};

TEST_F(EvalPython, Computes) {
  const PythonSandbox::Outcome outcome =
      sandbox_->run(R"({"code": "def add(a, b): return a + b", "function": "add", "args": [[1, 2], ["\u00e9", "x"]]})");
  EXPECT_EQ(outcome.end, PythonSandbox::End::kFinished);
  EXPECT_EQ(outcome.output, "[3, \"\\u00e9x\"]\n");
}

TEST_F(EvalPython, ReachesNoNetwork) {
  EXPECT_EQ(run("import socket\nsocket.socket()\nprint('open')"), "PermissionError\n");
}

TEST_F(EvalPython, StartsNoProcess) {
  EXPECT_EQ(run("import os\nos.fork()\nprint('two')"), "PermissionError\n");
  EXPECT_NE(run("import subprocess\nsubprocess.run(['/bin/true'], close_fds=False)\nprint('ran')"), "ran\n");
  EXPECT_NE(run("import threading\nthreading.Thread(target=print, args=['ran']).start()"), "ran\n");
}

TEST_F(EvalPython, SignalsNobody) {
  EXPECT_EQ(run("import os\nos.kill(os.getppid(), 0)\nprint('hit')"), "PermissionError\n");
  EXPECT_EQ(run("import fcntl, os\nfcntl.fcntl(1, fcntl.F_SETOWN, os.getppid())\nprint('owner')"), "PermissionError\n");
  EXPECT_EQ(run("import fcntl\nfcntl.fcntl(1, 10, 9)  # F_SETSIG\nprint('signal')"), "PermissionError\n");
}

TEST_F(EvalPython, WritesNoFileAndRemovesNone) {
  const std::filesystem::path file = temporary("file");
  std::ofstream(file) << "text";
  std::filesystem::permissions(file, std::filesystem::perms::all);
  EXPECT_EQ(run("open('" + file.string() + "', 'w')\nprint('open')"), "PermissionError\n");
  EXPECT_EQ(run("open('" + file.string() + "', 'r+')\nprint('open')"), "PermissionError\n");
  EXPECT_EQ(run("import os\nos.truncate('" + file.string() + "', 0)\nprint('cut')"), "PermissionError\n");
  EXPECT_EQ(run("import os\nos.remove('" + file.string() + "')\nprint('gone')"), "PermissionError\n");
  EXPECT_EQ(run("open('here', 'w')\nprint('open')"), "PermissionError\n");
  EXPECT_EQ(run("print(open('" + file.string() + "').read())"), "text\n");
  std::filesystem::remove(file);
}

TEST_F(EvalPython, HasAnEmptyEnvironment) {
  EXPECT_EQ(run("import os\nprint(sorted(k for k in os.environ if k != 'LC_CTYPE'))"), "[]\n");
}

TEST_F(EvalPython, MemoryIsBounded) { EXPECT_EQ(run("x = bytearray(1 << 30)\nprint(len(x))"), "MemoryError\n"); }

TEST_F(EvalPython, OutputIsBounded) { EXPECT_EQ(run("while True: print('x' * 1000)"), "killed"); }

TEST_F(EvalPython, AnEndlessLoopEnds) {
  sandbox_ = PythonSandbox::create({}, 1500).value();
  EXPECT_EQ(sandbox_->run_program("while True: pass", "").end, PythonSandbox::End::kKilled);
}

TEST_F(EvalPython, ASleeperIsKilledAlsoWithItsOutputClosed) {
  sandbox_ = PythonSandbox::create({}, 1500).value();
  EXPECT_EQ(run("import time, os\nprint('[1]', flush=True)\nos.close(1)\ntime.sleep(1000)"), "killed");
}

TEST_F(EvalPython, ManyThreadsMayRunPrograms) {
  std::vector<std::thread> threads;
  std::vector<std::string> outputs(8);
  for (size_t i = 0; i < outputs.size(); ++i) {
    threads.emplace_back(
        [this, i, &outputs] { outputs[i] = sandbox_->run_program("print(" + std::to_string(i) + ")", "").output; });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < outputs.size(); ++i) EXPECT_EQ(outputs[i], std::to_string(i) + "\n");
}

TEST(EvalPythonAbsent, IsAnErrorThatSaysSo) {
  const Result<std::unique_ptr<PythonSandbox>> sandbox = PythonSandbox::create("/nowhere/python3");
  ASSERT_FALSE(sandbox.ok());
  EXPECT_NE(sandbox.error().message.find("python3"), std::string::npos);
}

}  // namespace
}  // namespace boreas
