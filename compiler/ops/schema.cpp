#include "compiler/ops/schema.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/ops/contrib_types.h"
#include "compiler/ops/onnx_schema.h"

namespace mezzo {
namespace {

using Parameter = onnx::OpSchema::FormalParameter;

// What the precision passes ask of one operand or result.
struct ParameterFacts {
  std::uint32_t dtypes = 0;  // bit per DType
  std::string type_variable;
};
struct SchemaFacts {
  std::vector<ParameterFacts> operands, results;
  bool variadic_operands = false, variadic_results = false;
  TypeAttribute type_attribute;
};

static_assert(kDTypeCount <= 32, "a set of element types fits one word");

// The spelling of tensor types in schemas, by DType.
const std::array<std::string, kDTypeCount>& tensor_type_names() {
  static const auto* names = [] {
    auto* list = new std::array<std::string, kDTypeCount>;
    for (int i = 1; i < kDTypeCount; ++i) {
      (*list)[i] = "tensor(" + std::string(dtype_name(static_cast<DType>(i))) + ")";
    }
    return list;
  }();
  return *names;
}

ParameterFacts facts_of(const Parameter& parameter, const onnx::OpSchema& schema) {
  ParameterFacts facts;
  const auto& names = tensor_type_names();
  for (const std::string* type : parameter.GetTypes()) {
    const auto found = std::find(names.begin() + 1, names.end(), *type);
    if (found != names.end()) facts.dtypes |= 1U << (found - names.begin());
  }
  // A heterogeneous variadic parameter gives each operand its own type under the same letter.
  const bool shared =
      parameter.GetOption() != onnx::OpSchema::Variadic || parameter.GetIsHomogeneous();
  const auto& variables = schema.typeConstraintParams();
  const bool is_variable = std::any_of(
      variables.begin(), variables.end(),
      [&](const auto& constraint) { return constraint.type_param_str == parameter.GetTypeStr(); });
  if (shared && is_variable) facts.type_variable = parameter.GetTypeStr();
  return facts;
}

// Attributes in which a node says what element type it gives.
constexpr std::string_view kTypeAttributes[] = {"to", "dtype", "output_dtype", "output_datatype"};

TypeAttribute type_attribute_of(const onnx::OpSchema& schema) {
  for (const std::string_view name : kTypeAttributes) {
    const auto found = schema.attributes().find(std::string(name));
    if (found == schema.attributes().end() || found->second.type != onnx::AttributeProto::INT)
      continue;
    const std::int64_t fallback = found->second.default_value.i();  // 0 without a default
    const bool known = fallback > 0 && fallback < kDTypeCount;
    return {name, known ? static_cast<DType>(fallback) : DType::kNone};
  }
  return {};
}

SchemaFacts facts_of(const onnx::OpSchema& schema) {
  SchemaFacts facts;
  for (const Parameter& operand : schema.inputs())
    facts.operands.push_back(facts_of(operand, schema));
  for (const Parameter& result : schema.outputs())
    facts.results.push_back(facts_of(result, schema));
  const auto ends_variadic = [](const std::vector<Parameter>& list) {
    return !list.empty() && list.back().GetOption() == onnx::OpSchema::Variadic;
  };
  facts.variadic_operands = ends_variadic(schema.inputs());
  facts.variadic_results = ends_variadic(schema.outputs());
  facts.type_attribute = type_attribute_of(schema);
  return facts;
}

std::vector<ParameterFacts> facts_of(std::string_view letters, const ContribSignature& signature) {
  std::vector<ParameterFacts> facts;
  for (const char letter : letters) {
    if (letter == '*') continue;
    ParameterFacts parameter;
    const auto add = [&](DType dtype) { parameter.dtypes |= 1U << static_cast<int>(dtype); };
    if (letter != '.') add(DType::kFloat32);
    if (ContribSignature::is_variable(letter)) parameter.type_variable = letter;
    if (signature.float16.find(letter) != std::string_view::npos) add(DType::kFloat16);
    if (signature.bfloat16.find(letter) != std::string_view::npos) add(DType::kBFloat16);
    facts.push_back(std::move(parameter));
  }
  return facts;
}

SchemaFacts facts_of(const ContribSignature& signature) {
  SchemaFacts facts;
  facts.operands = facts_of(signature.operands, signature);
  facts.results = facts_of(signature.results, signature);
  facts.variadic_operands = signature.operands.ends_with('*');
  facts.variadic_results = signature.results.ends_with('*');
  return facts;
}

// Computed once per schema or signature. Neither ever moves, so their addresses are keys.
const SchemaFacts* schema_facts(const Node& node, std::int64_t opset) {
  if (opset > std::numeric_limits<int>::max()) return nullptr;
  const auto* schema = find_schema(node.op_type(), node.domain(), static_cast<int>(opset));
  const auto* signature = find_contrib_signature(node.op_type(), node.domain());
  if (schema == nullptr && signature == nullptr) return nullptr;
  static std::mutex mutex;
  static auto* cache = new std::unordered_map<const void*, std::unique_ptr<SchemaFacts>>;
  const std::lock_guard<std::mutex> lock(mutex);
  auto& slot = (*cache)[schema != nullptr ? static_cast<const void*>(schema) : signature];
  if (!slot)
    slot =
        std::make_unique<SchemaFacts>(schema != nullptr ? facts_of(*schema) : facts_of(*signature));
  return slot.get();
}

const ParameterFacts* at(const std::vector<ParameterFacts>& list, bool variadic,
                         std::size_t index) {
  if (index < list.size()) return &list[index];
  return variadic ? &list.back() : nullptr;
}

const ParameterFacts* operand_facts(const Node& node, std::size_t index, std::int64_t opset) {
  const SchemaFacts* facts = schema_facts(node, opset);
  return facts ? at(facts->operands, facts->variadic_operands, index) : nullptr;
}

const ParameterFacts* result_facts(const Node& node, std::size_t index, std::int64_t opset) {
  const SchemaFacts* facts = schema_facts(node, opset);
  return facts ? at(facts->results, facts->variadic_results, index) : nullptr;
}

std::optional<bool> accepts(const ParameterFacts* facts, DType dtype) {
  if (facts == nullptr) return std::nullopt;
  return (facts->dtypes >> static_cast<int>(dtype) & 1U) != 0;
}

}  // namespace

int newest_opset(std::string_view domain) {
  const auto& ranges = onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map();
  const auto found = ranges.find(std::string(canonical_domain(domain)));
  return found == ranges.end() ? 0 : found->second.second;
}

const onnx::OpSchema* find_schema(std::string_view op_type, std::string_view domain, int opset) {
  return onnx::OpSchemaRegistry::Schema(std::string(op_type), opset,
                                        std::string(canonical_domain(domain)));
}

bool has_schema(std::string_view op_type, std::string_view domain, std::int64_t opset) {
  if (find_contrib_signature(op_type, domain) != nullptr) return true;
  return opset <= std::numeric_limits<int>::max() &&
         find_schema(op_type, domain, static_cast<int>(opset)) != nullptr;
}

std::optional<bool> operand_accepts(const Node& node, std::size_t index, DType dtype,
                                    std::int64_t opset) {
  return accepts(operand_facts(node, index, opset), dtype);
}

std::optional<bool> result_accepts(const Node& node, std::size_t index, DType dtype,
                                   std::int64_t opset) {
  return accepts(result_facts(node, index, opset), dtype);
}

std::string_view operand_type_variable(const Node& node, std::size_t index, std::int64_t opset) {
  const ParameterFacts* facts = operand_facts(node, index, opset);
  return facts ? std::string_view(facts->type_variable) : std::string_view();
}

std::string_view result_type_variable(const Node& node, std::size_t index, std::int64_t opset) {
  const ParameterFacts* facts = result_facts(node, index, opset);
  return facts ? std::string_view(facts->type_variable) : std::string_view();
}

TypeAttribute type_attribute(const Node& node, std::int64_t opset) {
  const SchemaFacts* facts = schema_facts(node, opset);
  return facts ? facts->type_attribute : TypeAttribute{};
}

namespace {

template <typename Parameters>
bool first_takes(const Parameters& parameters, const std::string& type) {
  if (parameters.empty()) return false;
  const auto& types = parameters[0].GetTypes();
  return std::any_of(types.begin(), types.end(),
                     [&](const std::string* candidate) { return *candidate == type; });
}

// The least opset whose schema satisfies `test`; 0 if none does.
template <typename Test>
std::int64_t first_opset(std::string_view op_type, std::string_view domain, const Test& test) {
  const int newest = newest_opset(domain);
  for (int opset = 1; opset <= newest; ++opset) {
    const auto* schema = find_schema(op_type, domain, opset);
    if (schema != nullptr && test(*schema)) return opset;
  }
  return 0;
}

}  // namespace

std::int64_t first_opset_accepting(std::string_view op_type, std::string_view domain, DType dtype) {
  const std::string& wanted = tensor_type_names()[static_cast<int>(dtype)];
  return first_opset(op_type, domain, [&](const onnx::OpSchema& schema) {
    return first_takes(schema.inputs(), wanted);
  });
}

std::int64_t first_opset_giving(std::string_view op_type, std::string_view domain, DType dtype) {
  const std::string& wanted = tensor_type_names()[static_cast<int>(dtype)];
  return first_opset(op_type, domain, [&](const onnx::OpSchema& schema) {
    return first_takes(schema.outputs(), wanted);
  });
}

bool needs_first_operand(const Node& node) {
  const auto* schema = find_schema(node.op_type(), node.domain(), newest_opset(node.domain()));
  if (schema == nullptr) return true;
  return !schema->inputs().empty() && schema->inputs()[0].GetOption() != onnx::OpSchema::Optional;
}

bool needs_first_result(const Node& node) {
  const auto* schema = find_schema(node.op_type(), node.domain(), newest_opset(node.domain()));
  if (schema == nullptr) return true;
  return !schema->outputs().empty() && schema->outputs()[0].GetOption() == onnx::OpSchema::Single;
}

std::optional<std::size_t> missing_operand(const Node& node) {
  const auto* schema = find_schema(node.op_type(), node.domain(), newest_opset(node.domain()));
  if (schema == nullptr) return std::nullopt;
  for (std::size_t i = 0; i < schema->inputs().size(); ++i) {
    const bool demanded = schema->inputs()[i].GetOption() == onnx::OpSchema::Single;
    if (demanded && node.operand(i) == nullptr) return i;
  }
  return std::nullopt;
}

}  // namespace mezzo
