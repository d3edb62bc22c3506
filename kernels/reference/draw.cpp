// RandomUniform, RandomNormal, Bernoulli and Multinomial: numbers of kernels/philox.h, drawn by
// (attribute seed, run of this kernel, element). So a program that runs again draws the same
// numbers, and a node that runs twice in a program draws others the second time.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "compiler/support/text.h"
#include "kernels/philox.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {
namespace {

// Uniform numbers in [0, 1), one per element.
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint64_t step) : seed_(seed), step_(step) {}

  double at(std::int64_t element) {
    const auto pair = static_cast<std::uint64_t>(element / 2);
    if (element % 2 == 0 || !filled_ || pair != pair_) {
      numbers_ = philox_pair(seed_, step_, pair);
      pair_ = pair;
      filled_ = true;
    }
    return element % 2 == 0 ? numbers_.first : numbers_.second;
  }

 private:
  std::uint64_t seed_, step_;
  UniformPair numbers_{};
  std::uint64_t pair_ = 0;
  bool filled_ = false;
};

std::uint64_t read_seed(const KernelRequest& request) {
  return static_cast<std::uint64_t>(request.attributes.get_int("seed", 0));
}

}  // namespace

// low + (high - low) u
PreparedKernel prepare_random_uniform(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "-> y:f"));
  return make_kernel([seed = read_seed(request), low = request.attributes.get_float("low", 0.0),
                      high = request.attributes.get_float("high", 1.0),
                      y = Elements(operands.out(0)),
                      runs = std::uint64_t{0}](const KernelArguments& arguments) mutable {
    Draws draws(seed, runs++);
    for (std::int64_t i = 0; i < y.count(); ++i) {
      y.write<double>(arguments.outputs[0], i, low + (high - low) * draws.at(i));
    }
  });
}

// mean + scale z, two z of every pair of uniform numbers (Box and Muller, "A Note on the Generation
// of Random Normal Deviates", 1958).
PreparedKernel prepare_random_normal(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "-> y:f"));
  return make_kernel([seed = read_seed(request), mean = request.attributes.get_float("mean", 0.0),
                      scale = request.attributes.get_float("scale", 1.0),
                      y = Elements(operands.out(0)),
                      runs = std::uint64_t{0}](const KernelArguments& arguments) mutable {
    const std::uint64_t step = runs++;
    for (std::int64_t i = 0; i < y.count(); i += 2) {
      const auto [u, v] = philox_pair(seed, step, static_cast<std::uint64_t>(i / 2));
      const double radius = std::sqrt(-2.0 * std::log(1.0 - u));
      const double angle = 2.0 * std::numbers::pi * v;
      y.write<double>(arguments.outputs[0], i, mean + scale * radius * std::cos(angle));
      if (i + 1 < y.count()) {
        y.write<double>(arguments.outputs[0], i + 1, mean + scale * radius * std::sin(angle));
      }
    }
  });
}

// 1 with probability x, else 0.
PreparedKernel prepare_bernoulli(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:f -> y:v"));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(0).dims));
  return make_kernel([seed = read_seed(request), x = Elements(operands.in(0)),
                      y = Elements(operands.out(0)),
                      runs = std::uint64_t{0}](const KernelArguments& arguments) mutable {
    Draws draws(seed, runs++);
    for (std::int64_t i = 0; i < y.count(); ++i) {
      const bool one = draws.at(i) < x.read<double>(arguments.inputs[0], i);
      y.write<Integer>(arguments.outputs[0], i, one ? 1 : 0);
    }
  });
}

// x[B, C]: logarithms of unnormalised probabilities; y[B, S]: classes drawn by them.
// Workspace: the cumulated probabilities of a row.
PreparedKernel prepare_multinomial(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:f -> y:i"));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 2, 2));
  const std::int64_t rows = operands.in(0).dims[0];
  const std::int64_t classes = operands.in(0).dims[1];
  const std::int64_t samples = request.attributes.get_int("sample_size", 1);
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, {rows, samples}));
  if (classes < 1) return operands.in_error(0, "no classes to draw from");
  return make_kernel(
      [rows, classes, samples, seed = read_seed(request), x = Elements(operands.in(0)),
       y = Elements(operands.out(0)),
       runs = std::uint64_t{0}](const KernelArguments& arguments) mutable {
        Draws draws(seed, runs++);
        auto* cumulated = static_cast<double*>(arguments.workspace);
        for (std::int64_t row = 0; row < rows; ++row) {
          double largest = -INFINITY;
          for (std::int64_t c = 0; c < classes; ++c) {
            largest = std::fmax(largest, x.read<double>(arguments.inputs[0], row * classes + c));
          }
          double sum = 0.0;
          for (std::int64_t c = 0; c < classes; ++c) {
            sum += std::exp(x.read<double>(arguments.inputs[0], row * classes + c) - largest);
            cumulated[c] = sum;
          }
          for (std::int64_t s = 0; s < samples; ++s) {
            const double* const place =
                std::upper_bound(cumulated, cumulated + classes, sum * draws.at(row * samples + s));
            const std::int64_t drawn = std::min<std::int64_t>(place - cumulated, classes - 1);
            y.write<Integer>(arguments.outputs[0], row * samples + s, drawn);
          }
        }
      },
      doubles_bytes(classes));
}

}  // namespace mezzo::kernels::reference
