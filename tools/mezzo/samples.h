// Sample inputs for calibration: files as `run` takes them, which may hold several samples each.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/interpreter/buffer_pool.h"
#include "compiler/interpreter/value.h"
#include "compiler/ir/graph.h"
#include "compiler/support/status.h"
#include "tools/mezzo/value_io.h"

namespace mezzo::cli {

class Samples {
 public:
  // Each path is an npz or a folder of input_K.pb. Where an array has the declared shape it is one
  // sample; with a further axis in front, or with a multiple of the declared first size, it is
  // several; inputs of the declared shape go with each of them. InvalidArgument, naming file and
  // input: missing, of another type, of no such shape, or as many samples of one as of another.
  static StatusOr<Samples> open(const std::vector<std::string>& paths, const Graph& graph);

  std::uint64_t count() const { return count_; }
  // The inputs of a sample, in the graph's order. Keeps one file in memory.
  // REQUIRES: index < count().
  StatusOr<std::vector<RuntimeValue>> read(std::uint64_t index);

 private:
  struct File {
    std::string path;
    InputFiles files;
    std::uint64_t first = 0, count = 0;  // samples
  };
  Status add(const std::string& path);
  Status load(std::size_t file);
  // How many samples the value holds; 0: it is the same for all.
  StatusOr<std::uint64_t> samples_in(const std::string& path, std::size_t input,
                                     const RuntimeValue& value) const;

  std::vector<GraphPort> declared_, open_;  // as the graph says, and without shapes
  std::vector<File> files_;
  std::uint64_t count_ = 0;
  std::size_t loaded_ = SIZE_MAX;
  std::vector<RuntimeValue> values_;  // of the file that is loaded
  std::shared_ptr<BufferPool> pool_ = std::make_shared<BufferPool>(0);
};

}  // namespace mezzo::cli
