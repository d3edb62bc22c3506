#include "tests/cuda_on_cpu/device/barriers.h"

#include <atomic>
#include <mutex>
#include <set>

#include "tests/cuda_on_cpu/device/grid.h"

namespace cuda_on_cpu {
namespace {

std::atomic<bool> recording = false;
std::mutex mutex;
std::set<Barrier> recorded;

// Changed only between launches.
std::atomic<unsigned> removed_line = 0;
std::string removed_file;

}  // namespace

void record_barriers(bool on) {
  if (on) recorded.clear();
  recording = on;
}

std::vector<Barrier> recorded_barriers() { return {recorded.begin(), recorded.end()}; }

void remove_barrier(const Barrier* barrier) {
  removed_line = 0;
  if (barrier == nullptr) return;
  removed_file = barrier->file;
  removed_line = barrier->line;
}

bool is_removed(const Place& place) {
  return removed_line.load(std::memory_order_relaxed) == place.line() &&
         removed_file == place.file_name();
}

void record_barrier(const Place& place) {
  if (!recording.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex);
  recorded.insert({place.file_name(), place.line()});
}

}  // namespace cuda_on_cpu
