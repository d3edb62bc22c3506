#include "kernels/kernel.h"

#include <algorithm>

namespace mezzo::kernels {
namespace {

// The value of `name` if it is there and holds a T, else null.
template <typename T>
const T* find(const std::map<std::string, Attributes::Value, std::less<>>& values,
              std::string_view name) {
  const auto found = values.find(name);
  return found == values.end() ? nullptr : std::get_if<T>(&found->second);
}

}  // namespace

std::int64_t TensorDesc::elems() const {
  std::int64_t product = 1;
  for (const std::int64_t dim : dims) product *= dim;
  return product;
}

bool TensorDesc::layout_matters() const {
  if (dims.size() < 3 || dims[1] == 1) return false;
  return std::any_of(dims.begin() + 2, dims.end(), [](std::int64_t dim) { return dim != 1; });
}

std::size_t TensorDesc::bytes() const { return dtype_bytes(dtype, elems()); }

std::int64_t Attributes::get_int(std::string_view name, std::int64_t fallback) const {
  const auto* value = find<std::int64_t>(values_, name);
  return value != nullptr ? *value : fallback;
}

double Attributes::get_float(std::string_view name, double fallback) const {
  if (const auto* value = find<double>(values_, name)) return *value;
  const auto* integer = find<std::int64_t>(values_, name);
  return integer != nullptr ? static_cast<double>(*integer) : fallback;
}

std::string Attributes::get_string(std::string_view name, std::string_view fallback) const {
  const auto* value = find<std::string>(values_, name);
  return value != nullptr ? *value : std::string(fallback);
}

std::vector<std::int64_t> Attributes::get_ints(std::string_view name,
                                               const std::vector<std::int64_t>& fallback) const {
  const auto* value = find<std::vector<std::int64_t>>(values_, name);
  return value != nullptr ? *value : fallback;
}

std::vector<double> Attributes::get_floats(std::string_view name) const {
  const auto* value = find<std::vector<double>>(values_, name);
  return value != nullptr ? *value : std::vector<double>();
}

Status Kernel::explain(const DeviceFault& fault) const {
  return invalid_argument("operand " + std::to_string(fault.operand) + ", element " +
                          std::to_string(fault.position) + ": value " +
                          std::to_string(fault.value) + " is out of range");
}

}  // namespace mezzo::kernels
