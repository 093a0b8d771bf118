#include "exec/cuda/weight_reader.h"

#include <algorithm>

#include "base/check.h"

namespace boreas::cuda {
namespace {

constexpr unsigned kThreadsMax = 16;  // more gain nothing where PCIe or the disk is the limit

}  // namespace

int32_t WeightReader::threads_for_machine() {
  return static_cast<int32_t>(std::clamp(std::thread::hardware_concurrency(), 1u, kThreadsMax));
}

WeightReader::WeightReader(const Model& model, int32_t threads) : model_(model) {
  CHECK(threads > 0);
  for (int32_t i = 1; i < threads; ++i) helpers_.emplace_back([this] { help(); });
}

WeightReader::~WeightReader() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  begun_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

Status WeightReader::read(std::span<const Piece> pieces) {
  {
    const std::lock_guard lock(mutex_);
    pieces_ = pieces;
    next_ = 0;
    status_ = Ok{};
    working_ = static_cast<int32_t>(helpers_.size());
    ++round_;
  }
  begun_.notify_all();
  work();
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return working_ == 0; });
  return status_;
}

void WeightReader::help() {
  int64_t seen = 0;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      begun_.wait(lock, [&] { return stopping_ || round_ != seen; });
      if (stopping_) return;
      seen = round_;
    }
    work();
    const std::lock_guard lock(mutex_);
    if (--working_ == 0) done_.notify_one();
  }
}

void WeightReader::work() {
  for (size_t i = next_.fetch_add(1); i < pieces_.size(); i = next_.fetch_add(1)) {
    const Status status = model_.read_weight(*pieces_[i].weight, pieces_[i].first, pieces_[i].to);
    if (status.ok()) continue;
    const std::lock_guard lock(mutex_);
    status_ = status;
    next_ = pieces_.size();
  }
}

}  // namespace boreas::cuda
