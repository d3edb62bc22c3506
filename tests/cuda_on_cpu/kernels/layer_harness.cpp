// The functions of tests/kernels/layer_harness.h for the CUDA rows.
#include <map>
#include <string>

#include "kernels/cuda/rows.h"
#include "tests/cuda_on_cpu/kernels/barrier_removal.h"
#include "tests/cuda_on_cpu/kernels/device_run.h"
#include "tests/cuda_on_cpu/kernels/row_book.h"
#include "tests/kernels/layer_case.h"

namespace mezzo::kernels {
namespace {

constexpr std::uint64_t kOtherOrder = 54321;

struct Choice {
  const KernelEntry* row = nullptr;
  std::string implementation;
  std::string reasons;  // where there is none
};

// A run of a kernel of its own; under another order than the first, grids are small enough to
// stride.
StatusOr<Results> run_once(const KernelEntry& row, const KernelRequest& request,
                           const std::vector<Bytes>& operands, std::uint64_t order) {
  const FewBlocks few(order);
  MEZZO_ASSIGN_OR_RETURN(const auto kernel, row.prepare(for_device(request)));
  return run_on_device(*kernel, request, operands, order);
}

// Of the rows that take the request, each in turn: a library's and our own are tested alike.
Choice choose_row(const KernelRequest& request) {
  static auto* const turns = new std::map<std::string, std::size_t>;
  std::vector<Choice> takers;
  std::string reasons;
  for (const KernelEntry* const row : cuda::rows(request.op)) {
    auto kernel = row->prepare(for_device(request));
    if (kernel.ok()) {
      takers.push_back({row, std::string((*kernel)->implementation()), {}});
      continue;
    }
    EXPECT_EQ(kernel.status().code(), StatusCode::kUnimplemented) << kernel.status().message();
    reasons += std::string(row->implementation) + ": " + kernel.status().message() + "; ";
  }
  if (takers.empty()) return {nullptr, {}, reasons};
  return std::move(takers[(*turns)[request.op]++ % takers.size()]);
}

std::vector<Bytes> to_bytes(const KernelRequest& request, const std::vector<Values>& operands) {
  std::vector<Bytes> all;
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    const TensorDesc& desc = request.inputs[i];
    Bytes bytes(desc.present() ? desc.bytes() : 0);
    for (std::size_t j = 0; desc.present() && j < operands[i].size(); ++j) {
      auto* const first = reinterpret_cast<std::byte*>(bytes.data());
      write_number(first + dtype_bytes(desc.dtype, static_cast<std::int64_t>(j)), desc.dtype,
                   operands[i][j]);
    }
    all.push_back(std::move(bytes));
  }
  return all;
}

Outcome run_chosen(const Choice& choice, const KernelRequest& request,
                   const std::vector<Values>& operands) {
  note_tested(*choice.row);
  const std::vector<Bytes> bytes = to_bytes(request, operands);
  const auto results = run_once(*choice.row, request, bytes, 0);
  Outcome outcome{choice.implementation, {}};
  EXPECT_TRUE(results.ok()) << results.status().message() << describe(request);
  if (!results.ok()) return outcome;
  const auto second = run_once(*choice.row, request, bytes, kOtherOrder);
  EXPECT_TRUE(second.ok() && *second == *results)
      << "results depend on the order of threads" << describe(request);
  if (is_removing_barriers()) {
    check_barriers([&](unsigned order) {
      const auto again = run_once(*choice.row, request, bytes, order);
      return again.ok() && *again == *results;
    });
  }
  for (std::size_t i = 0; i < results->size(); ++i) {
    const TensorDesc& desc = request.outputs[i];
    const auto* const first = reinterpret_cast<const std::byte*>((*results)[i].data());
    Values values;
    for (std::int64_t j = 0; desc.present() && j < desc.elems(); ++j) {
      values.push_back(read_number(first + dtype_bytes(desc.dtype, j), desc.dtype));
    }
    outcome.results.push_back(std::move(values));
  }
  return outcome;
}

}  // namespace

// Where no row takes the request, the reference runs it: what the executor does.
Outcome run_layer(const KernelRequest& request, const std::vector<Values>& operands) {
  const Choice choice = choose_row(request);
  if (choice.row != nullptr) return run_chosen(choice, request, operands);
  note_refused(request.op, choice.reasons);
  auto reference = prepare_kernel(request, Backend::kReference);
  EXPECT_TRUE(reference.ok()) << reference.status().message() << describe(request);
  if (!reference.ok()) return {};
  return run_layer_on_host(**reference, request, operands);
}

// Rows are told of no constants yet.
Outcome run_layer_on_constants(const KernelRequest& request, const std::vector<Values>& operands) {
  return run_layer(request, operands);
}

bool has_bf16() { return true; }

}  // namespace mezzo::kernels
