// Several threads that read weights from their files at once: one alone copies 5 to 10 GB/s from the page cache, less
// than a GPU takes, and a disk is busy only if it has many requests. Made and used by weight_upload.cc.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "model/model.h"

namespace boreas::cuda {

class WeightReader {
 public:
  // threads: > 0, the calling one too. Keeps a reference to the model.
  WeightReader(const Model& model, int32_t threads);
  ~WeightReader();
  WeightReader(const WeightReader&) = delete;
  WeightReader& operator=(const WeightReader&) = delete;

  // Bytes of a weight (Model::read_weight).
  struct Piece {
    const TensorView* weight = nullptr;
    size_t first = 0;
    std::span<std::byte> to;
  };
  // Reads all pieces; returns when nobody works on them any more. Error: one of those that went wrong. By one thread
  // at a time.
  Status read(std::span<const Piece> pieces);

  // As many as are worth it on this machine.
  static int32_t threads_for_machine();

 private:
  void help();
  void work();

  const Model& model_;
  std::mutex mutex_;
  std::condition_variable begun_, done_;
  int64_t round_ = 0;              // guarded by mutex_
  int32_t working_ = 0;            // helpers in this round; guarded by mutex_
  bool stopping_ = false;          // guarded by mutex_
  Status status_ = Ok{};           // guarded by mutex_
  std::span<const Piece> pieces_;  // written between rounds
  std::atomic<size_t> next_{0};
  std::vector<std::thread> helpers_;
};

}  // namespace boreas::cuda
