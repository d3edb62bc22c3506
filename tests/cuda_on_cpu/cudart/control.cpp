#include "tests/cuda_on_cpu/control.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <utility>

#include "tests/cuda_on_cpu/cudart/state.h"
#include "tests/cuda_on_cpu/device/execution.h"
#include "tests/cuda_on_cpu/environment.h"

namespace cuda_on_cpu {
namespace {

std::int64_t most_blocks = static_cast<std::int64_t>(environment_number("CUDA_ON_CPU_BLOCKS", 0));

}  // namespace

Counts counts() {
  const Call call;
  return call->counts;
}

void set_stream_order(std::uint64_t seed) {
  const Call call;
  call->set_stream_order(seed);
}

void set_thread_order(std::uint64_t seed) {
  const Call call;
  call->thread_order = seed;
}

void set_most_blocks(std::int64_t most) { most_blocks = most; }

std::int64_t cuda_on_cpu_most_blocks() {
  return most_blocks > 0 ? most_blocks : std::numeric_limits<std::int64_t>::max();
}

void fail_call(std::uint64_t n) {
  const Call call;
  call->failing_call = n == 0 ? 0 : call->counts.calls + n;
}

void lose_device(std::uint64_t n) {
  const Call call;
  call->losing_call = n == 0 ? 0 : call->counts.calls + n;
}

void ignore_stream_wait(std::uint64_t n) {
  const Call call;
  call->waits_until_ignored = n;
}

std::string take_fault() {
  const Call call;
  call->last_error = cudaSuccess;
  return std::exchange(call->fault, {});
}

namespace {

// CUDA_ON_CPU_REPORT names a file for the counts, written when the program ends.
struct Report {
  ~Report() {
    const char* const path = std::getenv("CUDA_ON_CPU_REPORT");
    if (path == nullptr) return;
    std::FILE* const file = std::fopen(path, "w");
    if (file == nullptr) return;
    const Counts c = counts();
    std::fprintf(file,
                 "{\"calls\": %" PRIu64 ", \"kernels\": %" PRIu64 ", \"copies\": %" PRIu64
                 ", \"graphs\": %" PRIu64 ", \"waits\": %" PRIu64 ", \"stream_waits\": %" PRIu64
                 ", \"allocations\": %" PRIu64 ", \"blocks_alive\": %" PRIu64
                 ", \"peak_bytes\": %" PRIu64 ", \"fault\": %s}\n",
                 c.calls, c.kernels, c.copies, c.graphs, c.waits, c.stream_waits, c.allocations,
                 c.blocks_alive, c.peak_bytes, Runtime::get().fault.empty() ? "false" : "true");
    std::fclose(file);
  }
} report;

}  // namespace
}  // namespace cuda_on_cpu
