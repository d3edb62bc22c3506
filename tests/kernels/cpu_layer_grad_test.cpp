// Gradients of recurrent layers and of resizing against the reference.
#include <gtest/gtest.h>

#include <string>

#include "tests/kernels/kernel_harness.h"
#include "tests/support/status_test.h"

namespace mezzo::kernels {
namespace {

using Dims = std::vector<std::int64_t>;

// Every operand and result is there or not, all in dtypes of their own.
KernelRequest draw_layer_grad(Engine& engine, const std::string& cell) {
  const std::int64_t gates = cell == "LSTM" ? 4 : cell == "GRU" ? 3 : 1;
  const std::int64_t t = draw(engine, 1, 5), b = draw(engine, 1, 6), i = draw(engine, 1, 40);
  const std::int64_t h = draw(engine, 1, 40), directions = draw(engine, 1, 2);
  const bool first = draw(engine, 0, 1) == 1;  // batch first
  const auto there = [&](Dims dims) { return tensor(draw_float(engine), std::move(dims)); };
  const auto maybe = [&](Dims dims) {
    return draw(engine, 0, 2) == 0 ? TensorDesc() : there(std::move(dims));
  };
  const Dims x = first ? Dims{b, t, i} : Dims{t, b, i};
  const Dims y = first ? Dims{b, t, directions, h} : Dims{t, directions, b, h};
  const Dims state = first ? Dims{b, directions, h} : Dims{directions, b, h};
  const bool lstm = cell == "LSTM";
  KernelRequest request;
  request.op = cell + "Grad";
  request.inputs = {there(y),
                    maybe(state),
                    lstm ? maybe(state) : TensorDesc(),
                    there(x),
                    there({directions, gates * h, i}),
                    there({directions, gates * h, h}),
                    maybe({directions, 2 * gates * h}),
                    draw(engine, 0, 1) == 0 ? TensorDesc() : tensor(DType::kInt32, {b}),
                    maybe(state),
                    lstm ? maybe(state) : TensorDesc(),
                    lstm ? maybe({directions, 3 * h}) : TensorDesc()};
  for (const std::size_t like : {3, 4, 5, 6, 8, 9, 10}) {
    const TensorDesc& operand = request.inputs[like];
    request.outputs.push_back(operand.present() ? maybe(operand.dims) : TensorDesc());
  }
  if (!request.outputs[1].present()) request.outputs[1] = there(request.inputs[4].dims);
  Attributes& attributes = request.attributes;
  attributes.set("layout", std::int64_t{first});
  attributes.set("linear_before_reset", draw(engine, 0, 1));
  if (lstm) attributes.set("input_forget", draw(engine, 0, 1));
  attributes.set("direction", std::string(directions == 2           ? "bidirectional"
                                          : draw(engine, 0, 1) == 0 ? "reverse"
                                                                    : "forward"));
  if (draw(engine, 0, 2) == 0) attributes.set("clip", 0.7);
  return request;
}

TEST(LayerGrad, RecurrentEqualsTheReference) {
  Engine engine(185);
  for (int round = 0; round < 90; ++round) {
    const char* const cells[] = {"RNN", "GRU", "LSTM"};
    KernelCase test;
    test.request = draw_layer_grad(engine, cells[round % 3]);
    const bool first = test.request.attributes.get_int("layout", 0) == 1;
    const std::int64_t steps = test.request.inputs[3].dims[first ? 1 : 0];
    for (const TensorDesc& desc : test.request.inputs) {
      if (!desc.present()) {
        test.operands.emplace_back();
      } else if (desc.dtype == DType::kInt32) {
        test.operands.push_back(draw_integers(engine, desc, 0, steps));
      } else {
        test.operands.push_back(draw_numbers(engine, desc, 0.3));
      }
    }
    test.depth = 100 * steps;
    test.cancels = 4.0;
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

TEST(LayerGrad, Resize) {
  Engine engine(186);
  for (int round = 0; round < 100; ++round) {
    const Dims dims = {draw(engine, 1, 2), draw(engine, 1, 4), draw(engine, 1, 20),
                       draw(engine, 1, 40)};
    const Dims to = {dims[0], dims[1], draw(engine, 1, 40), draw(engine, 1, 40)};
    if (to == dims) continue;
    const DType dtype = draw_float(engine);
    const Layout layout = draw(engine, 0, 2) == 0 ? Layout::kChannelsLast : Layout::kRowMajor;
    const char* const modes[] = {"nearest", "linear", "cubic"};
    KernelCase test;
    test.request.op = "ResizeGrad";
    test.request.inputs = {tensor(dtype, to, layout)};
    test.request.outputs = {tensor(dtype, dims, layout)};
    test.operands = {draw_numbers(engine, test.request.inputs[0], 1.0)};
    test.depth = 64;
    test.cancels = 8.0;
    Attributes& attributes = test.request.attributes;
    attributes.set("mode", std::string(modes[round % 3]));
    attributes.set("sizes", to);
    attributes.set("antialias", draw(engine, 0, 1));
    ASSERT_NO_FATAL_FAILURE(check_kernel(test)) << modes[round % 3];
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace mezzo::kernels
