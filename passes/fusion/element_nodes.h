// The nodes that element programs can take over (kernels/element_program.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "kernels/kernel.h"

namespace mezzo::passes {

// An elementwise node in the form of kernels. A Cast has the attribute `to` in the words of
// programs: "" where there is nothing to do, as programs compute in float32.
struct Element {
  std::string op;
  kernels::Attributes attributes;
  std::vector<Value*> operands;  // null: absent

  bool is_idle_cast() const { return op == "Cast" && attributes.get_string("to", "").empty(); }
};

// Types that programs read and write as numbers.
bool is_number(DType dtype);

// Nothing for a node that no program has, or whose types or shapes no program takes.
std::optional<Element> read_element(const Node& node);

}  // namespace mezzo::passes
