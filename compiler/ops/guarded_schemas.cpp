#include "compiler/ops/guarded_schemas.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace mezzo {
namespace {

constexpr std::int64_t kMostDims = 4096;

// Operators with vectors of integers that hold one number per dimension or axis. Elsewhere (Gather,
// ScatterElements, TopK, ...) such vectors are data of any length.
constexpr std::string_view kShapeReaders[] = {
    "AffineGrid", "CenterCropPad", "Col2Im",  "ConstantOfShape", "Expand",
    "MaxUnpool",  "Pad",           "Reshape", "Resize",          "Slice",
    "Split",      "Squeeze",       "Tile",    "Unsqueeze",       "Upsample"};

// Which operand is data rather than a shape.
bool is_data(std::string_view op_type, std::size_t index) {
  return index == 0 && op_type != "ConstantOfShape";
}

// More than a shape can have, whatever the elements: the library propagates "shape data" of floats.
bool is_long_vector(const onnx::TypeProto* type) {
  if (type == nullptr || !type->has_tensor_type()) return false;
  const auto& tensor = type->tensor_type();
  return tensor.has_shape() && tensor.shape().dim_size() == 1 &&
         tensor.shape().dim(0).dim_value() > kMostDims;
}

bool is_integer(const onnx::TypeProto& type) {
  return type.tensor_type().elem_type() == onnx::TensorProto::INT64 ||
         type.tensor_type().elem_type() == onnx::TensorProto::INT32;
}

// A context whose required operands all have a type, and whose absent attributes have the default
// of the schema.
class SafeContext final : public onnx::InferenceContext {
 public:
  SafeContext(const onnx::OpSchema& schema, onnx::InferenceContext& inner)
      : schema_(&schema), inner_(&inner) {}

  const onnx::TypeProto* getInputType(std::size_t index) const override {
    static const onnx::TypeProto nothing;
    const auto* type = inner_->getInputType(index);
    return type == nullptr && is_required(index) ? &nothing : type;
  }
  const onnx::AttributeProto* getAttribute(const std::string& name) const override {
    if (const auto* given = inner_->getAttribute(name)) return given;
    const auto known = schema_->attributes().find(name);
    if (known == schema_->attributes().end()) return nullptr;
    const onnx::AttributeProto& fallback = known->second.default_value;
    return fallback.has_type() ? &fallback : nullptr;
  }
  std::size_t getNumInputs() const override { return inner_->getNumInputs(); }
  bool hasInput(std::size_t index) const override { return inner_->hasInput(index); }
  const onnx::TensorProto* getInputData(std::size_t index) const override {
    return inner_->getInputData(index);
  }
  std::size_t getNumOutputs() const override { return inner_->getNumOutputs(); }
  onnx::TypeProto* getOutputType(std::size_t index) override {
    return inner_->getOutputType(index);
  }
  bool hasOutput(std::size_t index) override { return inner_->hasOutput(index); }
  onnx::GraphInferencer* getGraphAttributeInferencer(const std::string& name) override {
    return inner_->getGraphAttributeInferencer(name);
  }
  const onnx::SparseTensorProto* getInputSparseData(std::size_t index) const override {
    return inner_->getInputSparseData(index);
  }
  const onnx::TensorShapeProto* getSymbolicInput(std::size_t index) const override {
    return inner_->getSymbolicInput(index);
  }
  std::string getDisplayName() const override { return inner_->getDisplayName(); }

 private:
  // A missing optional operand is known by having no type.
  bool is_required(std::size_t index) const {
    const auto& formal = schema_->inputs();
    if (formal.empty()) return false;
    const auto& parameter = formal[std::min(index, formal.size() - 1)];
    return parameter.GetOption() != onnx::OpSchema::Optional;
  }

  const onnx::OpSchema* schema_;
  onnx::InferenceContext* inner_;
};

void check_shapes(std::string_view op_type, const onnx::InferenceContext& context) {
  if (std::ranges::find(kShapeReaders, op_type) == std::end(kShapeReaders)) return;
  for (std::size_t i = 0; i < context.getNumInputs(); ++i) {
    const auto* type = context.getInputType(i);
    if (!is_data(op_type, i) && is_long_vector(type) && is_integer(*type)) {
      fail_shape_inference("expected at most ", kMostDims, " numbers in operand ", i, ", got more");
    }
  }
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Letters, and "..." once.
bool is_einsum_term(std::string_view term) {
  bool has_ellipsis = false;
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (is_letter(term[i])) continue;
    if (has_ellipsis || term.substr(i, 3) != "...") return false;
    has_ellipsis = true;
    i += 2;
  }
  return true;
}

// Terms with commas between, then perhaps an arrow and one more. The library never moves on from
// what it does not know.
void check_equation(const onnx::InferenceContext& context) {
  const auto* attribute = context.getAttribute("equation");
  if (attribute == nullptr) return;
  std::string text = attribute->s();
  std::erase(text, ' ');
  std::string_view rest = text;
  for (bool is_result = false;; rest.remove_prefix(is_result ? 2 : 1)) {
    const std::size_t end = std::min({rest.find(','), rest.find("->"), rest.size()});
    const bool last = end == rest.size();
    if (!is_einsum_term(rest.substr(0, end)) || (is_result && !last)) {
      fail_shape_inference("attribute equation: '", attribute->s(),
                           "' is no list of terms of letters and at most one '...'");
    }
    if (last) return;
    rest.remove_prefix(end);
    is_result = rest.front() == '-';
  }
}

// The schema whose inference function is to be used.
const onnx::OpSchema* counting_windows(const onnx::OpSchema* schema,
                                       const onnx::InferenceContext& context) {
  constexpr int kCountsRightSince = 22;
  const std::string& name = schema->Name();
  const bool pools = name == "MaxPool" || name == "AveragePool" || name == "LpPool";
  if (!pools || !schema->domain().empty() || schema->SinceVersion() >= kCountsRightSince)
    return schema;
  const auto* ceil_mode = context.getAttribute("ceil_mode");
  if (ceil_mode == nullptr || ceil_mode->i() == 0) return schema;
  const auto* newer = onnx::OpSchemaRegistry::Instance()->GetSchema(name, kCountsRightSince, "");
  return newer == nullptr ? schema : newer;
}

void propagate(const onnx::DataPropagationFunction& function,
               onnx::DataPropagationContext& context) {
  for (std::size_t i = 0; i < context.getNumInputs(); ++i) {
    if (is_long_vector(context.getInputType(i))) return;
  }
  function(context);
}

// The schema, guarded. The library hands out const pointers to objects of its own that are not
// const; changing them where they are reaches every user of them.
const onnx::OpSchema* guard(const onnx::OpSchema* schema) {
  static std::mutex mutex;
  static std::set<const onnx::OpSchema*> guarded;
  const std::lock_guard lock(mutex);
  if (schema == nullptr || !guarded.insert(schema).second) return schema;
  auto& own = const_cast<onnx::OpSchema&>(*schema);
  if (schema->has_type_and_shape_inference_function()) {
    own.TypeAndShapeInferenceFunction(
        [schema,
         function = schema->GetTypeAndShapeInferenceFunction()](onnx::InferenceContext& context) {
          check_shapes(schema->Name(), context);
          if (schema->Name() == "Einsum") check_equation(context);
          const onnx::OpSchema* counting = counting_windows(schema, context);
          SafeContext safe(*counting, context);
          if (counting == schema) {
            function(safe);
          } else {
            counting->GetTypeAndShapeInferenceFunction()(safe);
          }
        });
  }
  if (schema->has_data_propagation_function()) {
    own.PartialDataPropagationFunction(
        [function = schema->GetDataPropagationFunction()](onnx::DataPropagationContext& context) {
          propagate(function, context);
        });
  }
  return schema;
}

class GuardedSchemas final : public onnx::ISchemaRegistry {
 public:
  const onnx::OpSchema* GetSchema(const std::string& key, int max_inclusive_version,
                                  const std::string& domain) const override {
    return guard(onnx::OpSchemaRegistry::Instance()->GetSchema(key, max_inclusive_version, domain));
  }
};

}  // namespace

const onnx::ISchemaRegistry& guarded_schemas() {
  static const GuardedSchemas schemas;
  return schemas;
}

void guard_all_schemas() {
  static const bool done = [] {
    for (const auto& schema : onnx::OpSchemaRegistry::get_all_schemas_with_history()) {
      guarded_schemas().GetSchema(schema.Name(), schema.SinceVersion(), schema.domain());
    }
    return true;
  }();
  (void)done;
}

void run_inference(const onnx::OpSchema& schema, onnx::InferenceContext& context) {
  guard(&schema)->GetTypeAndShapeInferenceFunction()(context);
}

}  // namespace mezzo
