#include "server/worker_pool.h"

#include <utility>

namespace boreas {

WorkerPool::WorkerPool(int32_t threads, size_t jobs_max) : jobs_max_(jobs_max) {
  for (int32_t i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    jobs_.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool WorkerPool::submit(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    if (ending_ || jobs_.size() >= jobs_max_) return false;
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
  return true;
}

void WorkerPool::run() {
  while (true) {
    std::function<void()> job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ending_ || !jobs_.empty(); });
      if (ending_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace boreas
