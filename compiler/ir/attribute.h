// Attributes of nodes, as ONNX's AttributeProto has them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "compiler/ir/tensor.h"
#include "compiler/ir/type.h"

namespace mezzo {

class Graph;

struct NamedTensor {
  std::string name;
  TensorRef tensor;
};

struct Attribute {
  // The order is that of `Value`'s alternatives.
  enum class Kind : std::uint8_t {
    kNone,  // a reference to a function's attribute: see ref_name and ref_kind
    kFloat,
    kInt,
    kString,
    kTensor,
    kGraph,
    kSparseTensor,
    kType,
    kFloats,
    kInts,
    kStrings,
    kTensors,
    kGraphs,
    kSparseTensors,
    kTypes
  };
  using GraphRef = std::shared_ptr<Graph>;
  using SparseRef = std::shared_ptr<const SparseTensor>;
  using Value =
      std::variant<std::monostate, float, std::int64_t, std::string, NamedTensor, GraphRef,
                   SparseRef, Type, std::vector<float>, std::vector<std::int64_t>,
                   std::vector<std::string>, std::vector<NamedTensor>, std::vector<GraphRef>,
                   std::vector<SparseRef>, std::vector<Type>>;

  std::string name;
  Value value;
  std::string doc_string;
  std::string ref_name;         // inside a function: the function's attribute it stands for
  Kind ref_kind = Kind::kNone;  // the declared type of that reference

  Kind kind() const { return static_cast<Kind>(value.index()); }
};

}  // namespace mezzo
