// Fuzz targets: what any bytes at all are given to.
//
// A target is a function that takes bytes and returns. Whatever the bytes, a reader of ours answers
// with a Status that blames the input, or with something that keeps its promises; where it does
// not, the target aborts, which libFuzzer (fuzz_main.cpp) and GoogleTest (replay_test.cpp) both
// report. Memory errors show under the sanitizers, hangs and huge allocations by libFuzzer's
// limits.
#pragma once

#include <google/protobuf/message.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "compiler/support/status.h"

namespace mezzo::fuzz {

using Bytes = std::span<const std::byte>;

struct Target {
  std::string_view name;
  void (*run)(Bytes) = nullptr;
  // An empty message of the type that inputs are, so that the mutator can change one field at a
  // time; null where inputs are no protobuf messages.
  std::unique_ptr<google::protobuf::Message> (*new_message)() = nullptr;
};

extern const Target load_model_target, convert_target, run_target, text_target, plan_target,
    arrays_target, report_target, policy_target, ort_checkpoint_target;

inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A number that looks random and depends on the bytes alone, for what a target does to some inputs
// only: executions are many and should be short. Replays do everything to every input.
std::uint32_t choice_for(Bytes bytes);
inline bool do_everything = false;

// Aborts with `what` and `detail` on standard error unless `holds`.
void demand(bool holds, std::string_view what, std::string_view detail = {});
// A step that no input may break.
void demand_ok(const Status& status, std::string_view what);
// A step that may refuse its input: aborts if it calls that a bug of ours, or answers with more
// than one line.
bool accepted(const Status& status, std::string_view what);

// A folder in memory where there is one, the same for all inputs of a process and removed at its
// end. It is as a model's folder may be: `weights.bin` and `sub/more.bin` hold data, `outside.bin`
// lies in the folder above, and `link.bin` and `up` are links that lead there.
//
// Writes a file of this name; returns its path.
std::string write_scratch(std::string_view name, Bytes bytes);
// A path in a folder beside it, for outputs.
std::string output_path(std::string_view name);

}  // namespace mezzo::fuzz
