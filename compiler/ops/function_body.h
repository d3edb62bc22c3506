// Private to compiler/ops: operators that ONNX's schema spells as a function of others.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ops/onnx_schema.h"
#include "onnx/onnx_pb.h"

namespace mezzo {

// The node with operands "operand0", ... and results "result0", ...; "" where absent.
onnx::NodeProto node_to_proto(const Node& node);

// Per operand; an empty message where nothing is known.
std::vector<onnx::TypeProto> operand_types(const Node& node);

// The body at `opset` for a node with these attributes and operand types. False if there is none.
// The library may throw where a body cannot be built.
bool find_body(const onnx::NodeProto& node, const std::vector<onnx::TypeProto>& types,
               const onnx::OpSchema& schema, int opset, onnx::FunctionProto& body);

// What an attribute of the body that refers to `name` is, where the node does not give it; null if
// it is absent then.
const onnx::AttributeProto* default_attribute(const std::string& name,
                                              const onnx::FunctionProto& body,
                                              const onnx::OpSchema& schema);

}  // namespace mezzo
