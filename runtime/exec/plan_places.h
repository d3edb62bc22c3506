// Where the tensors of a plan lie, for the parts of check_plan().
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "compiler/plan/plan.pb.h"
#include "runtime/exec/plan_check.h"

namespace mezzo::runtime {

// `tensor` is a number that exists() unless the function says otherwise; offsets must have been
// checked where arenas matter.
class PlanPlaces {
 public:
  // Sizes that make no sense count as 0. The plan outlives this.
  explicit PlanPlaces(const proto::Plan& plan) : plan_(plan) {
    bytes_.reserve(static_cast<std::size_t>(plan.tensors_size()));
    for (const proto::Tensor& tensor : plan.tensors()) bytes_.push_back(tensor_bytes(tensor));
  }

  const proto::Tensor& operator[](int tensor) const { return plan_.tensors(tensor); }
  // Of any number.
  bool exists(int tensor) const { return tensor >= 0 && tensor < plan_.tensors_size(); }
  bool exists_or_absent(int tensor) const { return tensor == -1 || exists(tensor); }

  // Does it lie in an arena? Constants of the weights file do not.
  bool placed(int tensor) const {
    const proto::Tensor& t = plan_.tensors(tensor);
    return !(t.role() == proto::ROLE_CONSTANT && t.in_weights_file());
  }
  // In an arena, and not empty; of any number, absent ones included.
  bool has_bytes(int tensor) const { return tensor >= 0 && placed(tensor) && bytes(tensor) > 0; }

  std::uint64_t bytes(int tensor) const { return bytes_[static_cast<std::size_t>(tensor)]; }
  std::uint64_t end_of(int tensor) const { return plan_.tensors(tensor).offset() + bytes(tensor); }
  // Arena and offset, for sorting.
  std::pair<std::uint32_t, std::uint64_t> begin_of(int tensor) const {
    return {plan_.tensors(tensor).arena(), plan_.tensors(tensor).offset()};
  }
  bool overlap(int a, int b) const {
    if (!placed(a) || !placed(b) || plan_.tensors(a).arena() != plan_.tensors(b).arena())
      return false;
    return plan_.tensors(a).offset() < end_of(b) && plan_.tensors(b).offset() < end_of(a);
  }

 private:
  const proto::Plan& plan_;
  std::vector<std::uint64_t> bytes_;
};

}  // namespace mezzo::runtime
