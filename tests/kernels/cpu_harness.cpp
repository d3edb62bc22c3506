#include <gtest/gtest.h>

#include <string>

#include "kernels/cpu/isa.h"
#include "tests/kernels/kernel_case.h"

namespace mezzo::kernels {
namespace {

const KernelEntry* row_named(std::string_view op, std::string_view implementation) {
  for (const KernelEntry* row : kernel_rows(op, Backend::kCpu)) {
    if (row->implementation == implementation) return row;
  }
  return nullptr;
}

StatusOr<std::unique_ptr<Kernel>> prepare_row(const KernelRequest& request,
                                              std::string_view implementation) {
  const KernelEntry* row = row_named(request.op, implementation);
  if (row == nullptr) return unimplemented("no row '" + std::string(implementation) + "'");
  return row->prepare(request);
}

void check_in_place(const KernelCase& test, Kernel& kernel, const Results& apart) {
  const TensorDesc& y = test.request.outputs[0];
  for (std::size_t i = 0; i < test.request.inputs.size(); ++i) {
    const TensorDesc& x = test.request.inputs[i];
    if (!x.present() || !may_run_in_place(test.request.op, static_cast<int>(i), 0)) continue;
    if (x.dims != y.dims || x.layout != y.layout || x.bytes() != y.bytes()) continue;
    auto together = run_on_host(kernel, test.request, test.operands, static_cast<int>(i));
    ASSERT_TRUE(together.ok());
    EXPECT_EQ((*together)[0], apart[0]) << "another result in the buffer of operand " << i;
  }
}

}  // namespace

void check_kernel(const KernelCase& test) {
  SCOPED_TRACE(describe_request(test.request));
  const Results expected = reference_results(test);
  for (const char* isa : {"avx2", "avx512"}) {
    if (!cpu::select_isa(isa)) continue;
    SCOPED_TRACE(isa);
    Results first;
    for (const int threads : {1, 2}) {
      KernelRequest request = test.request;
      request.threads = threads;
      auto kernel = prepare_row(request, "cpu");
      ASSERT_TRUE(kernel.ok()) << kernel.status().message();
      EXPECT_EQ((*kernel)->implementation(), std::string("cpu:") + isa);
      auto results = run_on_host(**kernel, request, test.operands);
      ASSERT_TRUE(results.ok()) << results.status().message();
      if (threads == 1) {
        first = *results;
        ASSERT_NO_FATAL_FAILURE(compare(test, first, expected));
        ASSERT_NO_FATAL_FAILURE(check_in_place(test, **kernel, first));
      } else {
        EXPECT_EQ(*results, first) << "results depend on the threads";
      }
    }
  }
  cpu::select_isa("");
}

std::vector<Numbers> run_row(const KernelRequest& request, const std::vector<Numbers>& operands,
                             const std::vector<std::size_t>& constants) {
  KernelRequest told = request;
  std::vector<Buffer> kept;
  kept.reserve(constants.size());
  for (const std::size_t i : constants) {
    if (!request.inputs[i].present()) continue;
    kept.push_back(encode_all(request.inputs[i], operands[i]));
    told.constants.resize(request.inputs.size());
    told.constants[i] = kept.back().data();
  }
  auto kernel = prepare_row(told, "cpu");
  EXPECT_TRUE(kernel.ok()) << kernel.status().message();
  if (!kernel.ok()) return {};
  auto results = run_on_host(**kernel, request, operands);
  EXPECT_TRUE(results.ok()) << results.status().message();
  if (!results.ok()) return {};
  std::vector<Numbers> numbers(results->size());
  for (std::size_t k = 0; k < results->size(); ++k) {
    const TensorDesc& desc = request.outputs[k];
    for (std::int64_t i = 0; desc.present() && i < desc.elems(); ++i) {
      numbers[k].push_back(decode(desc.dtype, (*results)[k].data(), i));
    }
  }
  return numbers;
}

void expect_same_with_constants(const KernelRequest& request, const std::vector<Numbers>& operands,
                                const std::vector<std::size_t>& constants) {
  const std::vector<Numbers> expected = run_row(request, operands);
  EXPECT_EQ(run_row(request, operands, constants), expected) << describe_request(request);
}

Status row_status(const KernelRequest& request, const std::vector<Numbers>& operands) {
  auto kernel = prepare_row(request, "cpu");
  if (!kernel.ok()) return kernel.status();
  return run_on_host(**kernel, request, operands).status();
}

}  // namespace mezzo::kernels
