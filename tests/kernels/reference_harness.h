// Tensors, cases and runs for the tests of the reference kernels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/support/status.h"
#include "kernels/kernel.h"

namespace mezzo::kernels::test {

using Dims = std::vector<std::int64_t>;
using Ints = std::vector<std::int64_t>;

// A described buffer of exactly the size the description asks for, aligned to 64 bytes, between
// two bands of known bytes that show whether a kernel wrote past it.
class Tensor {
 public:
  Tensor() = default;  // absent
  explicit Tensor(TensorDesc desc);
  // REQUIRES: one value per element, in row-major order of the logical dims; none: all zero.
  Tensor(DType dtype, Dims dims, const std::vector<double>& values,
         Layout layout = Layout::kRowMajor);
  Tensor(const Tensor& other);
  Tensor(Tensor&&) noexcept = default;
  Tensor& operator=(Tensor other) noexcept;

  const TensorDesc& desc() const { return desc_; }
  std::int64_t elems() const { return desc_.present() ? desc_.elems() : 0; }
  void* data() const { return desc_.present() ? memory_.get() + kBand : nullptr; }
  bool bands_are_whole() const;

  // Element `i` in row-major order. at() of 64-bit integers rounds; integer_at() does not.
  double at(std::int64_t i) const;
  std::int64_t integer_at(std::int64_t i) const;
  void set(std::int64_t i, double value);
  void set_integer(std::int64_t i, std::int64_t value);
  std::vector<double> values() const;

  // The same values as another floating dtype (rounded by way of float) or in another layout.
  Tensor as(DType dtype) const;
  Tensor as(Layout layout) const;

 private:
  static constexpr std::size_t kBand = 64;
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::byte* element(std::int64_t i) const;

  TensorDesc desc_;
  std::unique_ptr<std::byte[], Free> memory_;
};

inline Tensor f64(Dims dims, const std::vector<double>& values) {
  return {DType::kFloat64, std::move(dims), values};
}
inline Tensor i64(Dims dims, const std::vector<double>& values) {
  return {DType::kInt64, std::move(dims), values};
}

struct AttributeValue {
  std::string name;
  Attributes::Value value;
};
Attributes attributes(const std::vector<AttributeValue>& values);

// Prepares the reference kernel of `op`.
StatusOr<std::unique_ptr<Kernel>> prepare(const KernelRequest& request);
KernelRequest make_request(const std::string& op, const Attributes& attributes,
                           const std::vector<Tensor>& inputs,
                           const std::vector<TensorDesc>& results);

// Prepares and runs. Results and workspace start as garbage, so that a kernel which relies on
// their contents fails; writing past a buffer is an Internal error.
StatusOr<std::vector<Tensor>> run(const std::string& op, const Attributes& attributes,
                                  const std::vector<Tensor>& inputs,
                                  const std::vector<TensorDesc>& results);
Status run_prepared(Kernel& kernel, const std::vector<Tensor>& inputs,
                    std::vector<Tensor>& results);

// One entry of reference_cases.txt, reference_cases_layers.txt or reference_cases_gradients.txt.
struct Case {
  std::string title;  // "Conv: depthwise"
  std::string op;
  Attributes attributes;
  std::vector<Tensor> inputs;
  std::vector<Tensor> results;

  std::vector<TensorDesc> result_descs() const;
};
// Aborts the test program if the file is not as expected.
const std::vector<Case>& all_cases();

// Names in the first column of the tables of kernels/README.md.
std::vector<std::string> listed_ops();

}  // namespace mezzo::kernels::test
