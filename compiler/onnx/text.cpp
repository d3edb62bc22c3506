// Model -> ONNX's text syntax, through ONNX's printer.
#include <google/protobuf/util/field_comparator.h>
#include <google/protobuf/util/message_differencer.h>

#include <exception>
#include <sstream>
#include <utility>

#include "compiler/onnx/export.h"
#include "compiler/onnx/proto_builder.h"
#include "compiler/onnx/tensor_reader.h"
#include "compiler/support/text.h"
#include "onnx/defs/parser.h"
#include "onnx/defs/printer.h"

namespace mezzo {
namespace {

constexpr std::size_t kShownBytes = 256;

// The printer knows neither complex numbers nor types below 8 bits.
bool is_printable(DType dtype) {
  return dtype_bits(dtype) >= 8 && dtype != DType::kComplex64 && dtype != DType::kComplex128;
}

// Doc strings and metadata of parts say nothing about a run, and the syntax has no place for them.
void drop_notes(onnx::GraphProto& graph);

void drop_notes(onnx::TensorProto& tensor) {
  tensor.clear_doc_string();
  tensor.clear_metadata_props();
}

void drop_notes(google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& infos) {
  for (auto& info : infos) {
    info.clear_doc_string();
    info.clear_metadata_props();
  }
}

void drop_notes(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes) {
  for (auto& node : nodes) {
    node.clear_doc_string();
    node.clear_metadata_props();
    for (auto& attribute : *node.mutable_attribute()) {
      attribute.clear_doc_string();
      if (attribute.has_t()) drop_notes(*attribute.mutable_t());
      if (attribute.has_g()) drop_notes(*attribute.mutable_g());
      for (auto& graph : *attribute.mutable_graphs()) drop_notes(graph);
    }
  }
}

void drop_notes(onnx::GraphProto& graph) {
  graph.clear_doc_string();
  graph.clear_metadata_props();
  drop_notes(*graph.mutable_node());
  drop_notes(*graph.mutable_input());
  drop_notes(*graph.mutable_output());
  drop_notes(*graph.mutable_value_info());
  for (auto& tensor : *graph.mutable_initializer()) drop_notes(tensor);
}

void drop_notes(onnx::ModelProto& model) {
  drop_notes(*model.mutable_graph());
  for (auto& function : *model.mutable_functions()) {
    function.clear_doc_string();
    function.clear_metadata_props();
    function.clear_value_info();
    drop_notes(*function.mutable_node());
  }
}

Status build_for_text(const Model& model, Weights weights, onnx::ModelProto& proto) {
  std::uint64_t elided = 0;
  const ProtoBuilder builder([&](const TensorRef& tensor, onnx::TensorProto& out) {
    const bool shown = weights == Weights::kEmbedded || tensor->byte_size() <= kShownBytes;
    if (shown && is_printable(tensor->dtype())) return store_typed(tensor, out);
    if (weights == Weights::kEmbedded) {
      return unimplemented("constants of type " + std::string(dtype_name(tensor->dtype())) +
                           " in ONNX text syntax");
    }
    // A tensor in an attribute needs a name where external data follow.
    if (out.name().empty()) out.set_name(std::string(kElidedLocation));
    store_elided(elided++, out);
    return ok_status();
  });
  MEZZO_RETURN_IF_ERROR(builder.build(model, proto));
  drop_notes(proto);
  return ok_status();
}

// Ok if the text gives the message back.
Status check_text(const std::string& text, const onnx::ModelProto& proto) {
  onnx::ModelProto read;
  const auto status = onnx::OnnxParser::Parse(read, text);
  if (!status.IsOK()) {
    return unimplemented("a name or constant that ONNX text syntax cannot hold: " +
                         printable(status.ErrorMessage(), 400));
  }
  google::protobuf::util::DefaultFieldComparator comparator;
  comparator.set_treat_nan_as_equal(true);
  google::protobuf::util::MessageDifferencer differencer;
  differencer.set_message_field_comparison(google::protobuf::util::MessageDifferencer::EQUIVALENT);
  differencer.set_field_comparator(&comparator);
  std::string difference;
  differencer.ReportDifferencesToString(&difference);
  if (differencer.Compare(proto, read)) return ok_status();
  return unimplemented("a part that ONNX text syntax cannot hold: " + printable(difference, 400));
}

}  // namespace

StatusOr<std::string> to_text(const Model& model, Weights weights) {
  onnx::ModelProto proto;
  MEZZO_RETURN_IF_ERROR(build_for_text(model, weights, proto));
  try {
    std::ostringstream out;
    out << proto;
    std::string text = std::move(out).str() + "\n";
    if (weights == Weights::kEmbedded) MEZZO_RETURN_IF_ERROR(check_text(text, proto));
    return text;
  } catch (const std::exception& error) {
    return internal_error("ONNX's printer: " + printable(error.what(), 400));
  }
}

}  // namespace mezzo
