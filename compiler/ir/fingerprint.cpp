#include <cstring>
#include <string_view>
#include <type_traits>

#include "compiler/ir/graph.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace mezzo {
namespace {

// Feeds an XXH3 state. Whatever has a length is preceded by it, so no two sequences run together.
class Hasher {
 public:
  Hasher() { XXH3_64bits_reset(&state_); }

  template <typename T>
  void number(T value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    bytes(&value, sizeof(value));
  }
  void text(std::string_view value) {
    number(value.size());
    bytes(value.data(), value.size());
  }
  template <typename T>
  void numbers(const std::vector<T>& values) {
    number(values.size());
    bytes(values.data(), values.size() * sizeof(T));
  }
  std::uint64_t digest() {
    flush();
    return XXH3_64bits_digest(&state_);
  }

 private:
  // Most pieces are a few bytes long: gathered, they cost a tenth.
  void bytes(const void* data, std::size_t size) {
    if (size > sizeof(gathered_) - fill_) flush();
    if (size > sizeof(gathered_)) {
      XXH3_64bits_update(&state_, data, size);
      return;
    }
    if (size > 0) std::memcpy(gathered_ + fill_, data, size);
    fill_ += size;
  }
  void flush() {
    XXH3_64bits_update(&state_, gathered_, fill_);
    fill_ = 0;
  }

  XXH3_state_t state_;
  std::size_t fill_ = 0;
  char gathered_[4096];
};

void add(Hasher& hash, const Graph& graph);

void add(Hasher& hash, const TensorRef& tensor) {
  hash.number<std::uint64_t>(tensor ? tensor->id() : 0);
}

void add(Hasher& hash, const NamedTensor& tensor) {
  hash.text(tensor.name);
  add(hash, tensor.tensor);
}

void add(Hasher& hash, const Attribute::SparseRef& sparse) {
  hash.number(sparse != nullptr);
  if (!sparse) return;
  add(hash, sparse->values);
  add(hash, sparse->indices);
  hash.numbers(sparse->dims);
}

void add(Hasher& hash, const Attribute::GraphRef& graph) {
  hash.number(graph != nullptr);
  if (graph) add(hash, *graph);
}

void add(Hasher& hash, const Type& type) {
  hash.number(type.kind);
  hash.number(type.tensor.dtype);
  hash.number(type.tensor.shape.has_value());
  if (type.tensor.shape) {
    hash.number(type.tensor.shape->size());
    for (const Dim& dim : *type.tensor.shape) {
      hash.number(dim.value);
      hash.text(dim.symbol);
    }
  }
  hash.number(type.key);
  hash.text(type.opaque_domain);
  hash.text(type.opaque_name);
  hash.number(type.element != nullptr);
  if (type.element) add(hash, *type.element);
}

struct AttributeValueHasher {
  Hasher& hash;

  void operator()(std::monostate) const {}
  void operator()(float value) const { hash.number(value); }
  void operator()(std::int64_t value) const { hash.number(value); }
  void operator()(const std::string& value) const { hash.text(value); }
  void operator()(const std::vector<float>& values) const { hash.numbers(values); }
  void operator()(const std::vector<std::int64_t>& values) const { hash.numbers(values); }
  void operator()(const std::vector<std::string>& values) const {
    hash.number(values.size());
    for (const std::string& value : values) hash.text(value);
  }
  template <typename T>
  void operator()(const std::vector<T>& values) const {
    hash.number(values.size());
    for (const T& value : values) add(hash, value);
  }
  template <typename T>
  void operator()(const T& value) const {
    add(hash, value);
  }
};

void add(Hasher& hash, const std::vector<Attribute>& attributes) {
  hash.number(attributes.size());
  for (const Attribute& attribute : attributes) {
    hash.text(attribute.name);
    hash.number(attribute.kind());
    std::visit(AttributeValueHasher{hash}, attribute.value);
    hash.text(attribute.ref_name);
    hash.number(attribute.ref_kind);
  }
}

// Values by name: within a graph names are unique, and captures are not hidden.
void add(Hasher& hash, const Value* value) {
  hash.text(value ? value->name() : std::string_view());
}

void add_with_type(Hasher& hash, const Value* value) {
  add(hash, value);
  if (value) add(hash, value->type);
}

void add(Hasher& hash, const Node& node) {
  hash.text(node.name);
  hash.text(node.op_type());
  hash.text(node.domain());
  hash.text(node.overload());
  hash.number(node.operand_count());
  for (std::size_t i = 0; i < node.operand_count(); ++i) add(hash, node.operand(i));
  hash.number(node.results().size());
  for (const Value* result : node.results()) add_with_type(hash, result);
  add(hash, node.attributes());
}

void add(Hasher& hash, const Graph& graph) {
  hash.text(graph.name);
  hash.number(graph.inputs().size());
  for (const Value* value : graph.inputs()) add_with_type(hash, value);
  hash.number(graph.initializers().size());
  for (const Value* value : graph.initializers()) {
    add_with_type(hash, value);
    add(hash, value->constant());
    add(hash, value->sparse_constant());
  }
  hash.number(graph.node_count());
  for (const auto& node : graph.nodes()) add(hash, *node);
  hash.number(graph.outputs().size());
  for (const Value* value : graph.outputs()) add(hash, value);
}

void add(Hasher& hash, const std::vector<OpsetImport>& opsets) {
  hash.number(opsets.size());
  for (const OpsetImport& opset : opsets) {
    hash.text(opset.domain);
    hash.number(opset.version);
  }
}

void add(Hasher& hash, const StringPairs& pairs) {
  hash.number(pairs.size());
  for (const auto& [key, value] : pairs) {
    hash.text(key);
    hash.text(value);
  }
}

void add(Hasher& hash, const Function& function) {
  hash.text(function.domain);
  hash.text(function.name);
  hash.text(function.overload);
  AttributeValueHasher{hash}(function.attribute_names);
  add(hash, function.attribute_defaults);
  add(hash, function.opsets);
  hash.number(function.body != nullptr);
  if (function.body) add(hash, *function.body);
}

void add(Hasher& hash, const TrainingInfo& info) {
  for (const auto* graph : {info.initialization.get(), info.algorithm.get()}) {
    hash.number(graph != nullptr);
    if (graph) add(hash, *graph);
  }
  add(hash, info.initialization_binding);
  add(hash, info.update_binding);
}

}  // namespace

std::uint64_t fingerprint(const Model& model) {
  Hasher hash;
  hash.number(model.ir_version);
  add(hash, model.opsets);
  hash.number(model.graph != nullptr);
  if (model.graph) add(hash, *model.graph);
  hash.number(model.functions.size());
  for (const auto& function : model.functions) add(hash, *function);
  hash.number(model.training_info.size());
  for (const TrainingInfo& info : model.training_info) add(hash, info);
  return hash.digest();
}

}  // namespace mezzo
