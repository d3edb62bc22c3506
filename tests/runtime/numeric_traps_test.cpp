// Training graphs with what goes wrong in 16 bits unless somebody sees to it: losses, norms, masks,
// positions and sums spelled out as exporters and people write them, on data that spring the trap.
// Without the user's help, losses and first gradients must stay beside those of FP32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "numeric_traps.h"
#include "runtime/io/npz.h"
#include "tests/numerics/numeric_case.h"
#include "tests/support/status_test.h"
#include "training_session.h"

namespace mezzo {
namespace {

using test::Session;
using test::SessionOptions;
using test::Trap;
using test::value_or_die;

std::vector<float> floats_of(const runtime::NpzFile& file, const std::string& name) {
  const runtime::ArrayInfo* info = value_or_die(file.get(name));
  const runtime::ArrayData data = value_or_die(file.read(name));
  const auto* values = reinterpret_cast<const float*>(data.bytes.data());
  return {values, values + info->elems};
}

SessionOptions options_for(const Trap& trap, const std::string& precision) {
  SessionOptions options;
  options.precision = precision;
  options.batch_size = 4;
  options.samples = 8;
  options.freeze = {"^c_"};
  options.classes = 8;
  options.trainer.optimizer.lr = 1e-4;
  options.trainer.schedule.base_lr = 1e-4;
  options.trainer.save_gradients_step = 1;
  options.trainer.loss_scale.mode =
      precision == "fp16" ? runtime::LossScaleMode::kStatic : runtime::LossScaleMode::kOff;
  options.trainer.loss_scale.init_scale = static_cast<double>(trap.scale);
  options.edit_floats = [&trap](const std::string& name, std::vector<float>& values) {
    for (float& value : values) value = name == "x" ? value * trap.x : std::fabs(value);
  };
  return options;
}

class NumericTrap : public testing::TestWithParam<Trap> {};

TEST_P(NumericTrap, IsKeptSafe) {
  const Trap& trap = GetParam();
  const std::string text = trap_text(trap);
  const auto exact = value_or_die(Session::open(text, options_for(trap, "fp32")));
  const auto want = exact->steps(3);
  const auto want_gradients = value_or_die(runtime::NpzFile::open(exact->file("gradients_1.npz")));
  for (const std::string precision : {"fp16", "bf16"}) {
    const double limit = static_cast<double>(precision == "fp16" ? trap.fp16 : trap.bf16);
    const auto session = value_or_die(Session::open(text, options_for(trap, precision)));
    const auto got = session->steps(3);
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_FALSE(got[i].skipped) << precision << " step " << i + 1;
      EXPECT_NEAR(got[i].loss, want[i].loss, limit * std::fabs(static_cast<double>(want[i].loss)))
          << precision << " step " << i + 1;
    }
    const auto gradients = value_or_die(runtime::NpzFile::open(session->file("gradients_1.npz")));
    for (const std::string& name : want_gradients.names()) {
      const std::vector<float> a = floats_of(want_gradients, name), b = floats_of(gradients, name);
      double off = 0, size = 0;
      for (std::size_t i = 0; i < a.size(); ++i) {
        off += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
        size += std::pow(static_cast<double>(a[i]), 2);
      }
      EXPECT_GT(size, 0) << name << ": the trap must train it";
      EXPECT_LE(std::sqrt(off / size), limit) << precision << ": gradient of " << name;
    }
  }
}

// The loss of the file that `convert` writes, every node rounding as it says.
TEST_P(NumericTrap, IsKeptSafeInTheFile) {
  const Trap& trap = GetParam();
  const std::string text = trap_text(trap);
  const std::string graph = text.substr(text.find('\n') + 1);
  std::vector<float> x = test::random_floats(24, 1, trap.x), t = test::random_floats(32, 2);
  for (float& value : t) value = std::fabs(value);
  const std::vector<RuntimeValue> inputs = {test::floats({4, 6}, x), test::floats({4, 8}, t),
                                            test::integers({4, 1}, {3, 0, 7, 5})};
  const auto loss_of = [&](const Model& model) {
    float loss = 0;
    std::memcpy(&loss, test::observe(model, inputs, nullptr).at(0).tensor.data.get(), sizeof loss);
    return static_cast<double>(loss);
  };
  const double want = loss_of(*test::prepared(graph));
  if (!std::isfinite(want)) GTEST_SKIP() << "nor is the file in FP32: training repairs more";
  for (const DType low : {DType::kFloat16, DType::kBFloat16}) {
    passes::PrecisionPolicy policy;
    policy.low = low;
    policy.assign = passes::AssignMethod::kPropagate;
    const double limit =
        static_cast<double>(low == DType::kFloat16 ? trap.fp16 : trap.bf16) * std::fabs(want);
    EXPECT_NEAR(loss_of(*test::converted(graph, policy)), want, limit) << dtype_name(low);
  }
}

std::string title_of(const testing::TestParamInfo<Trap>& trap) { return trap.param.title; }
INSTANTIATE_TEST_SUITE_P(Losses, NumericTrap,
                         testing::ValuesIn(test::loss_traps().begin(), test::loss_traps().end()),
                         title_of);
INSTANTIATE_TEST_SUITE_P(Arithmetic, NumericTrap,
                         testing::ValuesIn(test::arithmetic_traps().begin(),
                                           test::arithmetic_traps().end()),
                         title_of);

}  // namespace
}  // namespace mezzo
