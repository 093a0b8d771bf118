// A few threads for work that must not hold up the I/O thread: parsing, rendering and tokenising requests. Bounded: a
// full queue says no. Owned by Serving.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace boreas {

class WorkerPool {
 public:
  WorkerPool(int32_t threads, size_t jobs_max);
  ~WorkerPool();  // drops what waits, joins what runs
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // False: too many jobs wait already.
  bool submit(std::function<void()> job);

 private:
  void run();

  const size_t jobs_max_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace boreas
