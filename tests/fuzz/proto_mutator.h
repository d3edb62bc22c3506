// Changes of protobuf messages that leave them messages: libFuzzer's own mutations of the bytes
// mostly break lengths, and then only the parser is tested.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>

namespace mezzo::fuzz {

// One to four changes drawn from `seed`: numbers near the limits of their type, names and op types
// that occur elsewhere or that ONNX knows, fields cleared, copied from elsewhere, doubled, removed
// and swapped.
void mutate_message(google::protobuf::Message& message, std::uint32_t seed);

}  // namespace mezzo::fuzz
