// A signal handler may only use what cannot be half changed when it strikes: a fixed table of
// atomic numbers, and system calls.
#include "compiler/support/mapping_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>

namespace mezzo {
namespace {

// A mapping in the table; begin 0: the row is free. `bytes` is set before `begin`.
struct Watched {
  std::atomic<std::uintptr_t> begin = 0;
  std::atomic<std::size_t> bytes = 0;
};

// Programs map a model and a few files beside it; mappings beyond the table are not guarded.
std::array<Watched, 1024> watched;
std::atomic<bool> damaged = false;
static_assert(std::atomic<std::uintptr_t>::is_always_lock_free);

void on_bus_error(int, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (const Watched& row : watched) {
    const std::uintptr_t begin = row.begin.load();
    if (begin == 0 || address < begin || address - begin >= row.bytes.load()) continue;
    // The rest of the file is gone with this page: zeros in its place, in one go.
    const std::uintptr_t page = address & ~(static_cast<std::uintptr_t>(::getpagesize()) - 1);
    void* zeros = ::mmap(reinterpret_cast<void*>(page), begin + row.bytes.load() - page, PROT_READ,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (zeros == MAP_FAILED) break;
    damaged = true;
    return;
  }
  // None of ours: on return the access is tried again and ends the process as it would have.
  ::signal(SIGBUS, SIG_DFL);
}

}  // namespace

void guard_mappings() {
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

bool mappings_damaged() { return damaged; }

void watch_mapping(const void* begin, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  for (Watched& row : watched) {
    // Claimed with an address that no mapping has until the size is in place.
    std::uintptr_t free = 0;
    if (!row.begin.compare_exchange_strong(free, UINTPTR_MAX)) continue;
    row.bytes = bytes;
    row.begin = address;
    return;
  }
}

void unwatch_mapping(const void* begin) {
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  for (Watched& row : watched) {
    if (row.begin.load() != address) continue;
    row.begin = 0;
    return;
  }
}

}  // namespace mezzo
