// The optimizers of ai.onnx.preview.training: one step for any number of tensors. Operands: r
// (rate) and t (steps before this one), then for n tensors all x, all gradients, and all of every
// state; results: all new x, then all new states. Computed in double, rounded once.
//
// Formulas: ONNX, operators Adagrad, Adam and Momentum of ai.onnx.preview.training 1.
#include <array>
#include <cmath>

#include "compiler/support/text.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {
namespace {

constexpr std::size_t kMostStates = 2;

// One element: x and its states (overwritten), gradient g.
struct Slot {
  double x, g;
  std::array<double, kMostStates> state;
};

// The tensors of a step; `states` per x.
struct Tensors {
  std::size_t count = 0;
  std::size_t states = 0;
  std::vector<Elements> in, out;  // operands from 2 on, results

  // update(slot, rate, t) for every element.
  template <typename Update>
  void run(const KernelArguments& arguments, const Elements& rate, const Elements& step,
           Update&& update) const {
    const double r = rate.read<double>(arguments.inputs[0], 0);
    const auto t = static_cast<std::int64_t>(step.read<Integer>(arguments.inputs[1], 0));
    const auto set = update(r, t);
    for (std::size_t k = 0; k < count; ++k) {
      for (std::int64_t i = 0; i < in[k].count(); ++i) {
        const auto read = [&](std::size_t operand) {
          return in[operand].read<double>(arguments.inputs[2 + operand], i);
        };
        Slot slot{read(k), read(count + k), {}};
        for (std::size_t s = 0; s < states; ++s) slot.state[s] = read((2 + s) * count + k);
        set(slot);
        out[k].write<double>(arguments.outputs[k], i, slot.x);
        for (std::size_t s = 0; s < states; ++s) {
          const std::size_t result = (1 + s) * count + k;
          out[result].write<double>(arguments.outputs[result], i, slot.state[s]);
        }
      }
    }
  }
};

StatusOr<Tensors> read_tensors(const Operands& operands, std::size_t states) {
  MEZZO_RETURN_IF_ERROR(operands.expect_in_scalar(0));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_scalar(1));
  Tensors tensors;
  tensors.states = states;
  const std::size_t per_tensor = 2 + states;
  const std::size_t rest = operands.in_count() - 2;
  tensors.count = rest / per_tensor;
  if (rest % per_tensor != 0 || operands.out_count() != tensors.count * (1 + states)) {
    return operands.error("expected " + std::to_string(per_tensor) + " operands and " +
                          std::to_string(1 + states) + " results per tensor beside r and t, got " +
                          std::to_string(rest) + " and " + std::to_string(operands.out_count()));
  }
  for (std::size_t i = 0; i < rest; ++i) {
    MEZZO_RETURN_IF_ERROR(operands.expect_in(2 + i, operands.in(2 + i % tensors.count).dims));
    tensors.in.emplace_back(operands.in(2 + i));
  }
  for (std::size_t i = 0; i < operands.out_count(); ++i) {
    MEZZO_RETURN_IF_ERROR(operands.expect_out(i, operands.in(2 + i % tensors.count).dims));
    tensors.out.emplace_back(operands.out(i));
  }
  return tensors;
}

constexpr std::string_view kSignature = "r:f t:l x:f... -> y:f...";

}  // namespace

PreparedKernel prepare_adagrad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, kSignature));
  MEZZO_ASSIGN_OR_RETURN(Tensors tensors, read_tensors(operands, 1));
  const Attributes& attributes = request.attributes;
  return make_kernel(
      [tensors = std::move(tensors), rate = Elements(operands.in(0)),
       step = Elements(operands.in(1)), decay = attributes.get_float("decay_factor", 0.0),
       epsilon = attributes.get_float("epsilon", 1e-6),
       norm = attributes.get_float("norm_coefficient", 0.0)](const KernelArguments& arguments) {
        tensors.run(arguments, rate, step, [=](double r, std::int64_t t) {
          return [=, decayed = r / (1.0 + static_cast<double>(t) * decay)](Slot& slot) {
            const double g = norm * slot.x + slot.g;
            slot.state[0] += g * g;
            slot.x -= decayed * g / (std::sqrt(slot.state[0]) + epsilon);
          };
        });
      });
}

PreparedKernel prepare_adam(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, kSignature));
  MEZZO_ASSIGN_OR_RETURN(Tensors tensors, read_tensors(operands, 2));
  const Attributes& attributes = request.attributes;
  return make_kernel([tensors = std::move(tensors), rate = Elements(operands.in(0)),
                      step = Elements(operands.in(1)), alpha = attributes.get_float("alpha", 0.9),
                      beta = attributes.get_float("beta", 0.999),
                      epsilon = attributes.get_float("epsilon", 1e-6),
                      norm = attributes.get_float("norm_coefficient", 0.0),
                      norm_post = attributes.get_float("norm_coefficient_post", 0.0)](
                         const KernelArguments& arguments) {
    tensors.run(arguments, rate, step, [=](double r, std::int64_t t) {
      const auto steps = static_cast<double>(t);
      const double adjusted =
          t > 0 ? r * std::sqrt(1.0 - std::pow(beta, steps)) / (1.0 - std::pow(alpha, steps)) : r;
      return [=](Slot& slot) {
        const double g = norm * slot.x + slot.g;
        auto& [v, h] = slot.state;
        v = alpha * v + (1.0 - alpha) * g;
        h = beta * h + (1.0 - beta) * g * g;
        slot.x = (1.0 - norm_post) * (slot.x - adjusted * v / (std::sqrt(h) + epsilon));
      };
    });
  });
}

PreparedKernel prepare_momentum(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, kSignature));
  MEZZO_ASSIGN_OR_RETURN(Tensors tensors, read_tensors(operands, 1));
  const Attributes& attributes = request.attributes;
  const std::string mode = attributes.get_string("mode", "standard");
  if (mode != "standard" && mode != "nesterov") {
    return operands.error("attribute 'mode' is '" + mode + "', expected 'standard' or 'nesterov'");
  }
  return make_kernel([tensors = std::move(tensors), rate = Elements(operands.in(0)),
                      step = Elements(operands.in(1)), alpha = attributes.get_float("alpha", 0.9),
                      beta = attributes.get_float("beta", 1.0),
                      norm = attributes.get_float("norm_coefficient", 0.0),
                      nesterov = mode == "nesterov"](const KernelArguments& arguments) {
    tensors.run(arguments, rate, step, [=](double r, std::int64_t t) {
      const double weight = t > 0 ? beta : 1.0;  // the first step starts v
      return [=](Slot& slot) {
        const double g = norm * slot.x + slot.g;
        double& v = slot.state[0];
        v = alpha * v + weight * g;
        slot.x -= r * (nesterov ? g + alpha * v : v);
      };
    });
  });
}

}  // namespace mezzo::kernels::reference
