// What a training run tells: metrics.jsonl for programs, a progress line for people.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "compiler/support/status.h"

namespace mezzo::runtime {

// One optimizer step.
struct StepMetrics {
  std::int64_t step = 0;            // from 1
  float loss = 0.0F;                // unscaled, mean over the accumulated micro-batches
  std::optional<double> grad_norm;  // unscaled, before clipping; none on a skipped step
  double lr = 0.0;
  float loss_scale = 1.0F;  // the one used in this step
  bool skipped = false;     // by every optimizer
  // With several optimizers, bit i says that optimizer i skipped for an overflow of its own.
  std::uint64_t skipped_optimizers = 0;
  double step_ms = 0.0;
};

// One line of JSON without the newline:
//   {"step":1,"loss":2.3379574,"grad_norm":0.565,"lr":0.05,"loss_scale":65536,"skipped":false,
//    "step_ms":1.234}
// and, where only some of several optimizers skipped, "skipped_optimizers":[1] with their numbers.
// Numbers are the shortest text that reads back as the same float32 (loss, loss_scale) or double;
// a number that is not finite, which JSON lacks, is null.
std::string metrics_line(const StepMetrics& metrics);

// Appends lines to a file, each written at once, so a reader or a crash sees whole lines.
class MetricsWriter {
 public:
  // Starts the file anew.
  static StatusOr<MetricsWriter> create(const std::string& path);
  // Continues a run resumed after `last_step`: lines of later steps, written after the checkpoint
  // was taken, are removed; a missing file is started. InvalidArgument: a line is not ours.
  static StatusOr<MetricsWriter> resume(const std::string& path, std::int64_t last_step);

  ~MetricsWriter();
  MetricsWriter(MetricsWriter&& other) noexcept;
  MetricsWriter& operator=(MetricsWriter&& other) noexcept;

  Status write(const StepMetrics& metrics);

 private:
  MetricsWriter(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  static StatusOr<MetricsWriter> open(const std::string& path, int flags);

  std::string path_;
  int fd_;
};

struct Progress {
  std::int64_t step = 0;  // steps done
  double loss = 0.0;
  double loss_scale = 1.0;
  std::int64_t skipped_steps = 0;  // in total
  std::int64_t samples = 0;        // seen in total
  double elapsed_s = 0.0;          // since the first step began
};

struct ProgressOptions {
  std::int64_t total_steps = 0;
  bool terminal = false;  // redraw one line; else plain lines, about ten in all
  bool show_scale = true;
  int columns = 80;       // of the terminal
  double redraw_s = 0.1;  // least time between two redraws
};

// Shows progress on a terminal as a bar with loss, loss scale and samples per second, redrawn in
// place; in a pipe or file as lines, one about every tenth of the run and for the first and last
// step.
class ProgressReporter {
 public:
  using Sink = std::function<void(std::string_view)>;
  ProgressReporter(ProgressOptions options, Sink sink)
      : options_(options), sink_(std::move(sink)) {}

  // To standard error: `terminal` and `columns` from what that is.
  static ProgressReporter for_stderr(std::int64_t total_steps, bool show_scale);

  void update(const Progress& progress);
  // Ends the terminal's line, so that what is printed next starts on its own. Idempotent.
  void finish();

 private:
  std::string line(const Progress& progress) const;
  double samples_per_s(const Progress& progress) const;

  ProgressOptions options_;
  Sink sink_;
  Progress shown_;  // when last shown
  bool line_open_ = false;
};

}  // namespace mezzo::runtime
