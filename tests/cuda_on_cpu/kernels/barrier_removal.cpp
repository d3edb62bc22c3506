#include "tests/cuda_on_cpu/kernels/barrier_removal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>

#include "tests/cuda_on_cpu/device/grid.h"

namespace mezzo::kernels {
namespace {

using cuda_on_cpu::Barrier;

constexpr unsigned kOrders = 6;

// Which barriers have been missed by some test.
std::map<Barrier, bool>& barriers() {
  static auto* const all = new std::map<Barrier, bool>;
  return *all;
}

// True if the child saw something wrong, or did not end well.
bool is_missed(const Barrier& barrier, const std::function<bool(unsigned)>& run_once) {
  const pid_t child = fork();
  if (child == 0) {
    const int nowhere = open("/dev/null", O_WRONLY);  // what goes wrong is meant to
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    alarm(20);  // a removed barrier may leave a loop without end
    cuda_on_cpu::remove_barrier(&barrier);
    bool right = true;
    for (unsigned order = 0; right && order < kOrders; ++order) right = run_once(order);
    _exit(right ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

class AllBarriersAreMissed : public ::testing::Environment {
 public:
  void TearDown() override {
    if (!is_removing_barriers()) return;
    std::size_t missed = 0;
    for (const auto& [barrier, was_missed] : barriers()) {
      missed += was_missed ? 1 : 0;
      EXPECT_TRUE(was_missed) << "no test notices that this barrier is gone: " << barrier.file
                              << ":" << barrier.line;
    }
    EXPECT_GT(missed, 0U) << "no kernel has a barrier";
    std::printf("%zu of %zu barriers were missed when removed\n", missed, barriers().size());
  }
};

const auto* const kEnvironment = ::testing::AddGlobalTestEnvironment(new AllBarriersAreMissed);

}  // namespace

bool is_removing_barriers() {
  static const bool asked = std::getenv("MEZZO_REMOVE_BARRIERS") != nullptr;
  return asked;
}

void check_barriers(const std::function<bool(unsigned)>& run_once) {
  cuda_on_cpu::record_barriers(true);
  const bool right = run_once(0);
  cuda_on_cpu::record_barriers(false);
  if (!right) return;  // it fails with all its barriers; others say so
  for (const Barrier& barrier : cuda_on_cpu::recorded_barriers()) {
    bool& missed = barriers()[barrier];
    if (!missed) missed = is_missed(barrier, run_once);
  }
}

}  // namespace mezzo::kernels
