// Checks a request against an operator's signature and words the errors.
//
// A signature lists operands and results with one letter for the dtypes each may have:
//   "x:f w:f b?:f -> y:f"      ? the operand or result may be absent
//   "x:v... -> y:v"            ... one or more of these, last of its side
// Letters: f float, float16, bfloat16 or double; n those and the integers; v those and bool; s
// those and the narrow dtypes (narrow.h); t integers and the narrow dtypes;
// z the integers; i int32 or int64; j int32; l int64; q int8 or uint8; b bool; a anything of whole
// bytes (only moved, never read).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/status.h"
#include "kernels/reference/loop.h"

namespace mezzo::kernels::reference {

class Operands {
 public:
  // Borrows the request and the signature (a literal). InvalidArgument: wrong count, or a missing
  // operand. Unimplemented: a dtype the signature does not list.
  static StatusOr<Operands> check(const KernelRequest& request, std::string_view signature);

  const TensorDesc& in(std::size_t i) const;  // not present() where left out
  const TensorDesc& out(std::size_t i) const;
  std::size_t in_count() const { return request_->inputs.size(); }
  std::size_t out_count() const { return request_->outputs.size(); }
  const std::string& op() const { return request_->op; }
  const Attributes& attributes() const { return request_->attributes; }

  // InvalidArgument naming the op, and the operand or result.
  Status error(const std::string& what) const;
  Status in_error(std::size_t i, const std::string& what) const;
  Status out_error(std::size_t i, const std::string& what) const;

  // Absent operands and results pass.
  Status expect_in(std::size_t i, const Dims& dims) const;
  Status expect_out(std::size_t i, const Dims& dims) const;
  Status expect_in_rank(std::size_t i, std::size_t lowest, std::size_t highest) const;
  Status expect_in_scalar(std::size_t i) const;  // one element, any rank
  // All floating (in any mixture), or all of one integer dtype, results included if `results`.
  Status expect_one_kind(bool results) const;
  // Operands and results have one and the same dtype; optional absent ones pass.
  Status expect_one_dtype() const;

  // Attribute `name` as an index into `rank` dims, negative ones counted from the end.
  StatusOr<std::int64_t> axis(std::string_view name, std::int64_t fallback, std::size_t rank) const;
  // Attribute `name` as a list of different indices into `rank` dims; `fallback` where absent.
  StatusOr<Dims> axes(std::string_view name, const Dims& fallback, std::size_t rank) const;
  // A 0/1 attribute.
  StatusOr<bool> flag(std::string_view name, bool fallback) const;

 private:
  struct Slot {
    std::string_view name;
    char letter;
    bool optional;
    bool variadic;
  };
  Status check_side(bool inputs, std::string_view text, std::vector<Slot>& slots);
  static Slot parse_slot(std::string_view word);
  std::string where(bool inputs, std::size_t i) const;

  const KernelRequest* request_ = nullptr;
  std::vector<Slot> in_slots_;
  std::vector<Slot> out_slots_;
};

}  // namespace mezzo::kernels::reference
