#include "kernels/request_check.h"

#include <algorithm>
#include <iterator>

#include "compiler/support/text.h"

namespace mezzo::kernels {
namespace {

enum class AttributeKind { kInt, kFloat, kString, kInts, kFloats };

struct AttributeName {
  std::string_view name;
  AttributeKind kind;
};

// A name means the same kind in every operator that has it.
constexpr AttributeName kAttributeNames[] = {
    {"activation_alpha", AttributeKind::kFloats},
    {"activation_beta", AttributeKind::kFloats},
    {"activations", AttributeKind::kString},
    {"align_corners", AttributeKind::kInt},
    {"alpha", AttributeKind::kFloat},
    {"antialias", AttributeKind::kInt},
    {"approximate", AttributeKind::kString},
    {"auto_pad", AttributeKind::kString},
    {"axes", AttributeKind::kInts},
    {"axis", AttributeKind::kInt},
    {"batch_axis", AttributeKind::kInt},
    {"batch_dims", AttributeKind::kInt},
    {"beta", AttributeKind::kFloat},
    {"bias", AttributeKind::kFloat},
    {"block_shape", AttributeKind::kInts},
    {"block_size", AttributeKind::kInt},
    {"ceil_mode", AttributeKind::kInt},
    {"center_point_box", AttributeKind::kInt},
    {"clip", AttributeKind::kFloat},
    {"coordinate_transformation_mode", AttributeKind::kString},
    {"count_include_pad", AttributeKind::kInt},
    {"cubic_coeff_a", AttributeKind::kFloat},
    {"decay_factor", AttributeKind::kFloat},
    {"detect_negative", AttributeKind::kInt},
    {"detect_positive", AttributeKind::kInt},
    {"dft_length", AttributeKind::kInt},
    {"dilations", AttributeKind::kInts},
    {"direction", AttributeKind::kString},
    {"end", AttributeKind::kInt},
    {"ends", AttributeKind::kInts},
    {"epsilon", AttributeKind::kFloat},
    {"exclude_outside", AttributeKind::kInt},
    {"exclusive", AttributeKind::kInt},
    {"extrapolation_value", AttributeKind::kFloat},
    {"fmod", AttributeKind::kInt},
    {"frame_length", AttributeKind::kInt},
    {"frame_step", AttributeKind::kInt},
    {"gamma", AttributeKind::kFloat},
    {"group", AttributeKind::kInt},
    {"hidden_size", AttributeKind::kInt},
    {"high", AttributeKind::kFloat},
    {"ignore_index", AttributeKind::kInt},
    {"input_forget", AttributeKind::kInt},
    {"inverse", AttributeKind::kInt},
    {"k", AttributeKind::kInt},
    {"keep_aspect_ratio_policy", AttributeKind::kString},
    {"keepdims", AttributeKind::kInt},
    {"kernel_shape", AttributeKind::kInts},
    {"kv_num_heads", AttributeKind::kInt},
    {"lambd", AttributeKind::kFloat},
    {"largest", AttributeKind::kInt},
    {"layout", AttributeKind::kInt},
    {"linear_before_reset", AttributeKind::kInt},
    {"low", AttributeKind::kFloat},
    {"mean", AttributeKind::kFloat},
    {"mode", AttributeKind::kString},
    {"momentum", AttributeKind::kFloat},
    {"nearest_mode", AttributeKind::kString},
    {"noop_with_empty_axes", AttributeKind::kInt},
    {"norm_coefficient", AttributeKind::kFloat},
    {"norm_coefficient_post", AttributeKind::kFloat},
    {"num_groups", AttributeKind::kInt},
    {"offset_group", AttributeKind::kInt},
    {"onesided", AttributeKind::kInt},
    {"output_height", AttributeKind::kInt},
    {"output_padding", AttributeKind::kInts},
    {"output_shape", AttributeKind::kInts},
    {"output_width", AttributeKind::kInt},
    {"p", AttributeKind::kFloat},
    {"padding_mode", AttributeKind::kString},
    {"pads", AttributeKind::kInts},
    {"perm", AttributeKind::kInts},
    {"pooled_shape", AttributeKind::kInts},
    {"precision", AttributeKind::kInt},
    {"program", AttributeKind::kString},
    {"q_num_heads", AttributeKind::kInt},
    {"ratio", AttributeKind::kFloat},
    {"reduction", AttributeKind::kString},
    {"reverse", AttributeKind::kInt},
    {"roi", AttributeKind::kFloats},
    {"round_mode", AttributeKind::kString},
    {"sample_size", AttributeKind::kInt},
    {"sampling_ratio", AttributeKind::kInt},
    {"saturate", AttributeKind::kInt},
    {"scale", AttributeKind::kFloat},
    {"scales", AttributeKind::kFloats},
    {"seed", AttributeKind::kInt},
    {"select_last_index", AttributeKind::kInt},
    {"size", AttributeKind::kInt},
    {"sizes", AttributeKind::kInts},
    {"sorted", AttributeKind::kInt},
    {"spatial_scale", AttributeKind::kFloat},
    {"split", AttributeKind::kInts},
    {"start", AttributeKind::kInt},
    {"starts", AttributeKind::kInts},
    {"steps", AttributeKind::kInts},
    {"storage_order", AttributeKind::kInt},
    {"strides", AttributeKind::kInts},
    {"time_axis", AttributeKind::kInt},
    {"training_mode", AttributeKind::kInt},
    {"trans_a", AttributeKind::kInt},
    {"trans_b", AttributeKind::kInt},
    {"transA", AttributeKind::kInt},
    {"transB", AttributeKind::kInt},
    {"update_rule", AttributeKind::kString},
    {"upper", AttributeKind::kInt},
    {"value", AttributeKind::kFloat},
};

bool holds(const Attributes::Value& value, AttributeKind kind) {
  switch (kind) {
    case AttributeKind::kInt: return std::holds_alternative<std::int64_t>(value);
    case AttributeKind::kFloat:
      return std::holds_alternative<double>(value) || std::holds_alternative<std::int64_t>(value);
    case AttributeKind::kString: return std::holds_alternative<std::string>(value);
    case AttributeKind::kInts: return std::holds_alternative<std::vector<std::int64_t>>(value);
    case AttributeKind::kFloats: return std::holds_alternative<std::vector<double>>(value);
  }
  return false;
}

std::string_view kind_text(AttributeKind kind) {
  constexpr std::string_view kTexts[] = {"an integer", "a number", "a string", "a list of integers",
                                         "a list of numbers"};
  return kTexts[static_cast<std::size_t>(kind)];
}

Status check_attributes(const KernelRequest& request) {
  for (const auto& [name, value] : request.attributes.values()) {
    const auto* known =
        std::find_if(std::begin(kAttributeNames), std::end(kAttributeNames),
                     [&name = name](const AttributeName& row) { return row.name == name; });
    if (known != std::end(kAttributeNames) && !holds(value, known->kind)) {
      return invalid_argument(request.op + ", attribute '" + name + "': expected " +
                              std::string(kind_text(known->kind)) + ", got another kind of value");
    }
  }
  return ok_status();
}

Status check_desc(const TensorDesc& desc, const std::string& where) {
  if (!desc.present()) return ok_status();
  if (static_cast<int>(desc.dtype) >= kDTypeCount || dtype_bits(desc.dtype) == 0) {
    return invalid_argument(where + ": dtype " + std::string(dtype_name(desc.dtype)) +
                            " has no elements of fixed size");
  }
  if (desc.dims.size() > kMaxRank) {
    return unimplemented(where + ": rank " + std::to_string(desc.dims.size()) +
                         " is not supported, the highest is " + std::to_string(kMaxRank));
  }
  std::int64_t elems = 1;
  for (const std::int64_t dim : desc.dims) {
    if (dim < 0) {
      return invalid_argument(where + ": negative dim in " + format_dims(desc.dims));
    }
    const std::int64_t factor = std::max<std::int64_t>(dim, 1);
    if (factor > kMaxElems / elems) {
      return invalid_argument(where + ": " + format_dims(desc.dims) +
                              " has more elements than fit in memory");
    }
    elems *= factor;
  }
  if (desc.layout != Layout::kRowMajor && desc.layout != Layout::kChannelsLast) {
    return invalid_argument(where + ": unknown layout " +
                            std::to_string(static_cast<int>(desc.layout)));
  }
  if (desc.layout == Layout::kChannelsLast && desc.dims.size() < 3) {
    return invalid_argument(where + ": channels-last needs rank 3 or more, got " +
                            format_dims(desc.dims));
  }
  return ok_status();
}

}  // namespace

Status check_request(const KernelRequest& request) {
  MEZZO_RETURN_IF_ERROR(check_attributes(request));
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    MEZZO_RETURN_IF_ERROR(
        check_desc(request.inputs[i], request.op + ", operand " + std::to_string(i)));
  }
  for (std::size_t i = 0; i < request.outputs.size(); ++i) {
    MEZZO_RETURN_IF_ERROR(
        check_desc(request.outputs[i], request.op + ", result " + std::to_string(i)));
  }
  return ok_status();
}

}  // namespace mezzo::kernels
