// The functions of tests/kernels/kernel_harness.h for the CUDA rows.
#include "tests/kernels/kernel_harness.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "kernels/cuda/rows.h"
#include "tests/cuda_on_cpu/kernels/barrier_removal.h"
#include "tests/cuda_on_cpu/kernels/device_run.h"
#include "tests/cuda_on_cpu/kernels/row_book.h"
#include "tests/kernels/kernel_case.h"

namespace mezzo::kernels {
namespace {

constexpr std::uint64_t kOtherOrder = 12345;

std::vector<Numbers> decode_all(const KernelRequest& request, const Results& results) {
  std::vector<Numbers> numbers(results.size());
  for (std::size_t k = 0; k < results.size(); ++k) {
    const TensorDesc& desc = request.outputs[k];
    for (std::int64_t i = 0; desc.present() && i < desc.elems(); ++i) {
      numbers[k].push_back(decode(desc.dtype, results[k].data(), i));
    }
  }
  return numbers;
}

// A run of a kernel of its own: some count their runs, and draw other numbers in each. Under
// another order than the first, grids are small enough to stride.
StatusOr<Results> run_once(const KernelEntry& row, const KernelRequest& request,
                           const std::vector<Bytes>& operands, std::uint64_t order,
                           int in_place = -1) {
  const FewBlocks few(order);
  MEZZO_ASSIGN_OR_RETURN(const auto kernel, row.prepare(request));
  return run_on_device(*kernel, request, operands, order, in_place);
}

void check_in_place(const KernelEntry& row, const KernelRequest& request,
                    const std::vector<Bytes>& operands, const Results& apart) {
  const TensorDesc& y = request.outputs[0];
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    const TensorDesc& x = request.inputs[i];
    if (!x.present() || !may_run_in_place(request.op, static_cast<int>(i), 0)) continue;
    if (x.dims != y.dims || x.layout != y.layout || x.bytes() != y.bytes()) continue;
    const auto together = run_once(row, request, operands, kOtherOrder, static_cast<int>(i));
    ASSERT_TRUE(together.ok()) << together.status().message();
    EXPECT_EQ((*together)[0], apart[0]) << "another result in the buffer of operand " << i;
  }
}

void check_row(const KernelCase& test, const KernelEntry& row, const Results& expected) {
  const KernelRequest request = for_device(test.request);
  const std::vector<Bytes> operands = encode_operands(request, test.operands);
  const auto first = run_once(row, request, operands, 0);
  ASSERT_TRUE(first.ok()) << first.status().message();
  ASSERT_NO_FATAL_FAILURE(compare(test, *first, expected));
  const auto second = run_once(row, request, operands, kOtherOrder);
  ASSERT_TRUE(second.ok()) << second.status().message();
  ASSERT_EQ(*second, *first) << "results depend on the order of threads";
  ASSERT_NO_FATAL_FAILURE(check_in_place(row, request, operands, *first));
  if (!is_removing_barriers()) return;
  check_barriers([&](unsigned order) {
    const auto again = run_once(row, request, operands, order);
    return again.ok() && *again == *first;
  });
}

}  // namespace

void check_kernel(const KernelCase& test) {
  SCOPED_TRACE(describe_request(test.request));
  const KernelRequest request = for_device(test.request);
  std::string reasons;
  bool taken = false;
  Results expected;
  for (const KernelEntry* const row : cuda::rows(request.op)) {
    auto kernel = row->prepare(request);
    if (!kernel.ok() && kernel.status().code() == StatusCode::kUnimplemented) {
      reasons += std::string(row->implementation) + ": " + kernel.status().message() + "; ";
      continue;
    }
    ASSERT_TRUE(kernel.ok()) << kernel.status().message();
    SCOPED_TRACE((*kernel)->implementation());
    if (!taken) expected = reference_results(test);
    taken = true;
    note_tested(*row);
    ASSERT_NO_FATAL_FAILURE(check_row(test, *row, expected));
  }
  if (!taken) note_refused(request.op, reasons);
}

// By the first row that takes the request; where none does, by the reference.
std::vector<Numbers> run_row(const KernelRequest& request, const std::vector<Numbers>& operands,
                             const std::vector<std::size_t>& /*constants*/) {
  auto kernel = cuda::prepare_kernel(for_device(request));
  StatusOr<Results> results = Results();
  if (kernel.ok()) {
    results = run_on_device(**kernel, request, encode_operands(request, operands), 0);
  } else {
    EXPECT_EQ(kernel.status().code(), StatusCode::kUnimplemented) << kernel.status().message();
    note_refused(request.op, kernel.status().message());
    kernel = prepare_kernel(request, Backend::kReference);
    EXPECT_TRUE(kernel.ok()) << kernel.status().message();
    if (!kernel.ok()) return {};
    results = run_on_host(**kernel, request, operands);
  }
  EXPECT_TRUE(results.ok()) << results.status().message();
  return results.ok() ? decode_all(request, *results) : std::vector<Numbers>();
}

// Rows are told of no constants yet, so that all there is to check is that they work.
void expect_same_with_constants(const KernelRequest& request, const std::vector<Numbers>& operands,
                                const std::vector<std::size_t>& constants) {
  const std::vector<Numbers> expected = run_row(request, operands);
  EXPECT_EQ(run_row(request, operands, constants), expected) << describe_request(request);
}

// As the executor does it: the reference says first whether the request makes sense.
Status row_status(const KernelRequest& request, const std::vector<Numbers>& operands) {
  auto reference = prepare_kernel(request, Backend::kReference);
  if (!reference.ok()) return reference.status();
  auto kernel = cuda::prepare_kernel(for_device(request));
  if (kernel.ok()) {
    return run_on_device(**kernel, request, encode_operands(request, operands), 0).status();
  }
  if (!cuda::rows(request.op).empty()) return kernel.status();
  note_refused(request.op, kernel.status().message());
  return run_on_host(**reference, request, operands).status();
}

}  // namespace mezzo::kernels
