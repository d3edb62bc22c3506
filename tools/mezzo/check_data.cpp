#include "tools/mezzo/check_data.h"

#include <cstring>
#include <optional>
#include <vector>

#include "compiler/support/dtype.h"
#include "compiler/support/text.h"
#include "runtime/io/npz.h"
#include "runtime/train/element_cast.h"

namespace mezzo::cli {
namespace {

struct IndexRange {
  std::int64_t least = 0, most = 0;
  std::optional<std::int64_t> also;  // ignore_index
  std::string taken_by;

  bool holds(std::int64_t value) const {
    return (value >= least && value <= most) || (also && value == *also);
  }
};

std::optional<std::int64_t> int_attribute(const proto::Step& step, const std::string& name) {
  for (const proto::Attribute& attribute : step.attributes()) {
    if (attribute.name() == name && attribute.has_i()) return attribute.i();
  }
  return std::nullopt;
}

// The same bytes: an input, or a reshaped view of it.
bool is_view_of(const proto::Tensor& a, const proto::Tensor& b) {
  return a.arena() == b.arena() && a.offset() == b.offset() && a.dtype() == b.dtype() &&
         a.in_weights_file() == b.in_weights_file() && a.inline_data().empty() &&
         b.inline_data().empty();
}

// What a step demands of the values of its operand 1.
std::optional<IndexRange> demanded(const proto::Plan& plan, const proto::Step& step) {
  IndexRange range;
  range.taken_by = printable(step.node());
  if (!range.taken_by.starts_with("node producing "))
    range.taken_by = "node '" + range.taken_by + "' (" + printable(step.op()) + ")";
  const proto::Tensor& first = plan.tensors(step.inputs(0));
  if (step.op() == "SoftmaxCrossEntropyLoss" && first.dims_size() >= 2) {
    range.most = first.dims(1) - 1;
    range.also = int_attribute(step, "ignore_index");
    return range;
  }
  if (step.op() == "Gather") {
    std::int64_t axis = int_attribute(step, "axis").value_or(0);
    if (axis < 0) axis += first.dims_size();
    if (axis < 0 || axis >= first.dims_size()) return std::nullopt;
    range.most = first.dims(static_cast<int>(axis)) - 1;
    range.least = -range.most - 1;  // counted from the end
    return range;
  }
  return std::nullopt;
}

// `weights`: of each value in the mean; those of 0 are not looked at. Empty: all are.
template <typename Index>
Status check_values(const runtime::NpzFile& file, const runtime::ArrayInfo& array,
                    const IndexRange& range, const std::vector<float>& weights) {
  MEZZO_ASSIGN_OR_RETURN(const runtime::ArrayData data,
                         file.read(array.name, runtime::Alignment::kAny));
  for (std::uint64_t i = 0; i < array.elems; ++i) {
    Index value{};
    std::memcpy(&value, data.bytes.data() + i * sizeof value, sizeof value);
    if (range.holds(value) || (!weights.empty() && weights[i] == 0)) continue;
    const std::uint64_t per_sample = array.elems / static_cast<std::uint64_t>(array.shape[0]);
    return invalid_argument(
        printable(file.path()) + ": array '" + printable(array.name) + "', sample " +
        std::to_string(i / per_sample) + ": " + std::to_string(value) + " is out of range; " +
        range.taken_by + " takes " + std::to_string(range.least) + " to " +
        std::to_string(range.most) +
        (range.also ? ", and " + std::to_string(*range.also) + " to ignore a place"
                    : std::string()));
  }
  return ok_status();
}

Status check_array(const runtime::NpzFile& file, const runtime::ArrayInfo& array,
                   const IndexRange& range, const std::vector<float>& weights = {}) {
  const auto check = [&]<typename Index>(Index) {
    return check_values<Index>(file, array, range, weights);
  };
  if (array.dtype == DType::kInt64) return check(std::int64_t{});
  if (array.dtype == DType::kInt32) return check(std::int32_t{});
  if (array.dtype == DType::kUInt8) return check(std::uint8_t{});
  if (array.dtype == DType::kInt16) return check(std::int16_t{});
  if (array.dtype == DType::kInt8) return check(std::int8_t{});
  return ok_status();
}

Status check_input(const proto::Plan& plan, const runtime::NpzFile& file, const proto::Port& port,
                   const IndexRange& range) {
  const runtime::ArrayInfo* array = file.find(port.name());
  if (array == nullptr || array->elems == 0 || array->shape.empty()) return ok_status();
  // A file may hold another type than the graph takes; what does not fit that is found elsewhere.
  const auto wanted = static_cast<DType>(plan.tensors(port.tensor()).dtype());
  if (wanted != DType::kInt64 && wanted != DType::kInt32) return ok_status();
  return check_array(file, *array, range);
}

}  // namespace

Status check_index_inputs(const proto::Plan& plan, const std::string& path) {
  MEZZO_ASSIGN_OR_RETURN(const runtime::NpzFile file, runtime::NpzFile::open(path));
  for (const proto::Phase& phase : plan.phases()) {
    if (phase.kind() != proto::PHASE_FORWARD) continue;
    for (const proto::Step& step : phase.steps()) {
      if (step.inputs_size() < 2 || step.inputs(0) < 0 || step.inputs(1) < 0) continue;
      for (const proto::Port& port : plan.inputs()) {
        if (!is_view_of(plan.tensors(step.inputs(1)), plan.tensors(port.tensor()))) continue;
        const std::optional<IndexRange> range = demanded(plan, step);
        if (range) MEZZO_RETURN_IF_ERROR(check_input(plan, file, port, *range));
      }
    }
  }
  return ok_status();
}

Status check_masked_labels(const proto::Plan& plan, const std::string& path,
                           const passes::LossOptions& loss) {
  if (loss.kind != passes::LossKind::kCrossEntropy || loss.padding_mask.empty()) return ok_status();
  MEZZO_ASSIGN_OR_RETURN(const runtime::NpzFile file, runtime::NpzFile::open(path));
  const runtime::ArrayInfo* labels = file.find(loss.target);
  const runtime::ArrayInfo* mask = file.find(loss.padding_mask);
  if (labels == nullptr || mask == nullptr || labels->elems != mask->elems || labels->elems == 0)
    return ok_status();
  const runtime::CastFunction cast = runtime::element_cast(mask->dtype, DType::kFloat32);
  if (cast == nullptr) return ok_status();
  MEZZO_ASSIGN_OR_RETURN(const runtime::ArrayData data,
                         file.read(mask->name, runtime::Alignment::kAny));
  std::vector<float> weights(static_cast<std::size_t>(mask->elems));
  cast(data.bytes.data(), reinterpret_cast<std::byte*>(weights.data()),
       static_cast<std::int64_t>(weights.size()));
  for (const proto::Phase& phase : plan.phases()) {
    if (phase.kind() != proto::PHASE_FORWARD) continue;
    for (const proto::Step& step : phase.steps()) {
      if (step.op() != "SoftmaxCrossEntropyLoss" || step.inputs_size() < 2) continue;
      const std::optional<IndexRange> range = demanded(plan, step);
      if (range) MEZZO_RETURN_IF_ERROR(check_array(file, *labels, *range, weights));
    }
  }
  return ok_status();
}

}  // namespace mezzo::cli
