#include "compiler/interpreter/kernel_attributes.h"

namespace mezzo {

kernels::Attributes to_kernel_attributes(const std::vector<Attribute>& attributes) {
  kernels::Attributes out;
  for (const Attribute& attribute : attributes) {
    if (const auto* i = std::get_if<std::int64_t>(&attribute.value)) out.set(attribute.name, *i);
    if (const auto* f = std::get_if<float>(&attribute.value))
      out.set(attribute.name, static_cast<double>(*f));
    if (const auto* s = std::get_if<std::string>(&attribute.value)) out.set(attribute.name, *s);
    if (const auto* ints = std::get_if<std::vector<std::int64_t>>(&attribute.value))
      out.set(attribute.name, *ints);
    if (const auto* floats = std::get_if<std::vector<float>>(&attribute.value)) {
      out.set(attribute.name, std::vector<double>(floats->begin(), floats->end()));
    }
  }
  return out;
}

}  // namespace mezzo
