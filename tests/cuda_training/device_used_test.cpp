// Sessions that cannot open the device would train on the CPU, and pass.
#include <gtest/gtest.h>

#include "tests/cuda_training/session_device.h"

namespace mezzo::test {
namespace {

TEST(SessionDevice, IsUsed) { EXPECT_TRUE(sessions_are_on_device()); }

}  // namespace
}  // namespace mezzo::test
