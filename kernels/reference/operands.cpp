#include "kernels/reference/operands.h"

#include <algorithm>

#include "compiler/support/text.h"
#include "kernels/reference/element.h"
#include "kernels/reference/narrow.h"

namespace mezzo::kernels::reference {
namespace {

const TensorDesc kAbsent;

bool matches(DType dtype, char letter) {
  switch (letter) {
    case 'f': return is_floating(dtype);
    case 'n': return is_floating(dtype) || is_integer(dtype);
    case 'v': return has_elements(dtype);
    case 's': return has_elements(dtype) || is_narrow(dtype);
    case 't': return is_integer(dtype) || is_narrow(dtype);
    case 'z': return is_integer(dtype);
    case 'i': return dtype == DType::kInt32 || dtype == DType::kInt64;
    case 'l': return dtype == DType::kInt64;
    case 'b': return dtype == DType::kBool;
    case 'q': return dtype == DType::kInt8 || dtype == DType::kUInt8;
    case 'j': return dtype == DType::kInt32;
    default: return dtype_bits(dtype) % 8 == 0;
  }
}

std::string_view letter_text(char letter) {
  switch (letter) {
    case 'f': return "float, float16, bfloat16 or double";
    case 'n': return "a floating or integer dtype";
    case 'v': return "a floating, integer or bool dtype";
    case 's': return "a floating, integer or bool dtype, or a narrow one";
    case 't': return "an integer dtype or a narrow one";
    case 'z': return "an integer dtype";
    case 'i': return "int32 or int64";
    case 'l': return "int64";
    case 'b': return "bool";
    case 'q': return "int8 or uint8";
    case 'j': return "int32";
    default: return "a dtype of whole bytes";
  }
}

}  // namespace

Operands::Slot Operands::parse_slot(std::string_view word) {
  Slot slot{};
  slot.variadic = word.ends_with("...");
  const std::size_t colon = word.find(':');
  slot.letter = word[colon + 1];
  slot.name = word.substr(0, colon);
  slot.optional = slot.name.ends_with('?');
  if (slot.optional) slot.name.remove_suffix(1);
  return slot;
}

Status Operands::check_side(bool inputs, std::string_view text, std::vector<Slot>& slots) {
  const std::vector<TensorDesc>& descs = inputs ? request_->inputs : request_->outputs;
  while (!text.empty()) {
    const std::size_t space = std::min(text.find(' '), text.size());
    if (space > 0) slots.push_back(parse_slot(text.substr(0, space)));
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  const bool variadic = !slots.empty() && slots.back().variadic;
  if (descs.size() > slots.size() && !variadic) {
    return error("expected at most " + std::to_string(slots.size()) +
                 (inputs ? " operands" : " results") + ", got " + std::to_string(descs.size()));
  }
  if (variadic) slots.resize(std::max(slots.size(), descs.size()), slots.back());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const TensorDesc& desc = i < descs.size() ? descs[i] : kAbsent;
    if (!desc.present()) {
      if (slots[i].optional) continue;
      return invalid_argument(where(inputs, i) + " is missing");
    }
    if (!matches(desc.dtype, slots[i].letter)) {
      return unimplemented(where(inputs, i) + ": expected " +
                           std::string(letter_text(slots[i].letter)) + ", got " +
                           std::string(dtype_name(desc.dtype)));
    }
  }
  return ok_status();
}

StatusOr<Operands> Operands::check(const KernelRequest& request, std::string_view signature) {
  Operands operands;
  operands.request_ = &request;
  const std::size_t arrow = signature.find("->");
  MEZZO_RETURN_IF_ERROR(operands.check_side(true, signature.substr(0, arrow), operands.in_slots_));
  MEZZO_RETURN_IF_ERROR(
      operands.check_side(false, signature.substr(arrow + 2), operands.out_slots_));
  return operands;
}

const TensorDesc& Operands::in(std::size_t i) const {
  return i < request_->inputs.size() ? request_->inputs[i] : kAbsent;
}

const TensorDesc& Operands::out(std::size_t i) const {
  return i < request_->outputs.size() ? request_->outputs[i] : kAbsent;
}

std::string Operands::where(bool inputs, std::size_t i) const {
  const std::vector<Slot>& slots = inputs ? in_slots_ : out_slots_;
  std::string text = op() + (inputs ? ", operand " : ", result ") + std::to_string(i);
  if (i < slots.size()) text += " '" + std::string(slots[i].name) + "'";
  return text;
}

Status Operands::error(const std::string& what) const {
  return invalid_argument(op() + ": " + what);
}

Status Operands::in_error(std::size_t i, const std::string& what) const {
  return invalid_argument(where(true, i) + ": " + what);
}

Status Operands::out_error(std::size_t i, const std::string& what) const {
  return invalid_argument(where(false, i) + ": " + what);
}

Status Operands::expect_in(std::size_t i, const Dims& dims) const {
  if (!in(i).present() || in(i).dims == dims) return ok_status();
  return in_error(i, "expected dims " + format_dims(dims) + ", got " + format_dims(in(i).dims));
}

Status Operands::expect_out(std::size_t i, const Dims& dims) const {
  if (!out(i).present() || out(i).dims == dims) return ok_status();
  return out_error(i, "expected dims " + format_dims(dims) + ", got " + format_dims(out(i).dims));
}

Status Operands::expect_in_rank(std::size_t i, std::size_t lowest, std::size_t highest) const {
  const std::size_t rank = in(i).dims.size();
  if (rank >= lowest && rank <= highest) return ok_status();
  std::string expected = std::to_string(lowest);
  if (highest >= kMaxRank) {
    expected += " or more";
  } else if (highest > lowest) {
    expected += " to " + std::to_string(highest);
  }
  return in_error(i, "expected rank " + expected + ", got " + std::to_string(rank));
}

Status Operands::expect_in_scalar(std::size_t i) const {
  if (!in(i).present() || in(i).elems() == 1) return ok_status();
  return in_error(i, "expected one element, got dims " + format_dims(in(i).dims));
}

Status Operands::expect_one_kind(bool results) const {
  const DType first = in(0).dtype;
  const auto mixes = [&](const TensorDesc& desc) {
    if (!desc.present() || desc.dtype == first) return false;
    return !is_floating(first) || !is_floating(desc.dtype);
  };
  const auto text = [&](const TensorDesc& desc) {
    return "dtype " + std::string(dtype_name(desc.dtype)) + " does not go with " +
           std::string(dtype_name(first)) + " of operand 0";
  };
  for (std::size_t i = 1; i < in_count(); ++i) {
    if (mixes(in(i))) return in_error(i, text(in(i)));
  }
  for (std::size_t i = 0; results && i < out_count(); ++i) {
    if (mixes(out(i))) return out_error(i, text(out(i)));
  }
  return ok_status();
}

Status Operands::expect_one_dtype() const {
  const DType dtype = in_count() > 0 ? in(0).dtype : out(0).dtype;
  const auto text = [&](const TensorDesc& desc) {
    return "expected dtype " + std::string(dtype_name(dtype)) + ", got " +
           std::string(dtype_name(desc.dtype));
  };
  for (std::size_t i = 0; i < in_count(); ++i) {
    if (in(i).present() && in(i).dtype != dtype) return in_error(i, text(in(i)));
  }
  for (std::size_t i = 0; i < out_count(); ++i) {
    if (out(i).present() && out(i).dtype != dtype) return out_error(i, text(out(i)));
  }
  return ok_status();
}

StatusOr<std::int64_t> Operands::axis(std::string_view name, std::int64_t fallback,
                                      std::size_t rank) const {
  const std::int64_t value = attributes().get_int(name, fallback);
  const auto limit = static_cast<std::int64_t>(rank);
  if (value < -limit || value >= limit) {
    return error("attribute '" + std::string(name) + "' is " + std::to_string(value) +
                 ", expected -" + std::to_string(limit) + " to " + std::to_string(limit - 1));
  }
  return value < 0 ? value + limit : value;
}

StatusOr<Dims> Operands::axes(std::string_view name, const Dims& fallback, std::size_t rank) const {
  Dims axes = attributes().get_ints(name, fallback);
  const auto limit = static_cast<std::int64_t>(rank);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < -limit || axes[i] >= limit) {
      return error("attribute '" + std::string(name) + "' holds " + std::to_string(axes[i]) +
                   ", expected -" + std::to_string(limit) + " to " + std::to_string(limit - 1));
    }
    if (axes[i] < 0) axes[i] += limit;
    if (std::find(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(i), axes[i]) !=
        axes.begin() + static_cast<std::ptrdiff_t>(i)) {
      return error("attribute '" + std::string(name) + "' names axis " + std::to_string(axes[i]) +
                   " twice");
    }
  }
  return axes;
}

StatusOr<bool> Operands::flag(std::string_view name, bool fallback) const {
  const std::int64_t value = attributes().get_int(name, fallback ? 1 : 0);
  if (value != 0 && value != 1) {
    return error("attribute '" + std::string(name) + "' is " + std::to_string(value) +
                 ", expected 0 or 1");
  }
  return value == 1;
}

}  // namespace mezzo::kernels::reference
