// ONNX's small messages as IR values and back: types, value infos, key and value pairs.
#pragma once

#include <string>
#include <string_view>

#include "compiler/ir/attribute.h"
#include "compiler/ir/graph.h"
#include "compiler/support/status.h"
#include "onnx/onnx_pb.h"

namespace mezzo {

// Element types that this version does not know keep their number, up to 255. Unimplemented beyond.
StatusOr<DType> dtype_from_proto(int elem_type);

// A TypeProto without a kind gives Type::Kind::kUnknown. A dimension of -1 is an unknown one.
StatusOr<Type> type_from_proto(const onnx::TypeProto& proto);
void type_to_proto(const Type& type, onnx::TypeProto& proto);

StatusOr<ValueInfo> value_info_from_proto(const onnx::ValueInfoProto& proto);
void value_info_to_proto(const ValueInfo& info, onnx::ValueInfoProto& proto);

using PairsProto = google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto>;
StringPairs pairs_from_proto(const PairsProto& protos);
void pairs_to_proto(const StringPairs& pairs, PairsProto& protos);

// The two numberings of attribute kinds. kNone and UNDEFINED correspond.
Attribute::Kind attribute_kind(onnx::AttributeProto::AttributeType type);
onnx::AttributeProto::AttributeType attribute_type(Attribute::Kind kind);

// "node 'conv1' (Conv)" or, without a name, "node producing 'y' (Relu)": as describe(Node) says it.
std::string describe_proto(const onnx::NodeProto& node);

}  // namespace mezzo
