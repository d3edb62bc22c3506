// ONNX files as bytes: taking weights out before protobuf sees the file, and putting them back
// while writing.
//
// A model file is one protobuf message. Nearly all of its bytes are TensorProto.raw_data payloads,
// which protobuf would copy into memory. `strip_payloads` walks the wire format along every path
// that can lead to a TensorProto and returns the message without the payloads (the skeleton), each
// raw_data holding an 8-byte marker instead: the payload's number, little-endian. All raw_data
// fields are replaced, so a marker cannot be mistaken for data. `Expansion` does the opposite: it
// computes all length prefixes from payload sizes alone and then streams the file.
//
// Wire format: https://protobuf.dev/programming-guides/encoding. Offsets are 64 bits throughout;
// files beyond protobuf's own limit of 2 GiB can be read as long as their skeleton fits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/status.h"

namespace mezzo {

// The largest message protobuf reads or writes.
inline constexpr std::uint64_t kMaxProtoBytes = 0x7fffffff;

struct ByteRange {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

struct StrippedModel {
  std::string skeleton;             // a serialized ModelProto
  std::vector<ByteRange> payloads;  // where each raw_data lies in the input
};

// InvalidArgument (with the byte offset) for anything that is no well-formed message: truncated
// varints, lengths beyond the enclosing message, nesting deeper than protobuf allows.
// `on_payload` hears the size of each payload as it is stepped over.
StatusOr<StrippedModel> strip_payloads(
    std::span<const std::byte> model,
    const std::function<void(std::uint64_t payload_bytes)>& on_payload = {});

std::string encode_marker(std::uint64_t payload);
std::optional<std::uint64_t> decode_marker(std::string_view raw_data);

// A skeleton and the sizes of its payloads, ready to be written as a complete message.
class Expansion {
 public:
  using Sink = std::function<Status(std::span<const std::byte>)>;

  // `skeleton` must outlive the object. Internal error if it is no skeleton or a marker has no
  // size.
  static StatusOr<Expansion> plan(std::string_view skeleton,
                                  std::span<const std::uint64_t> payload_bytes);

  std::uint64_t total_bytes() const { return total_bytes_; }

  // Hands all bytes to `sink` in order; `write_payload` hands those of one payload to the same
  // sink. The writer must deliver as many bytes as planned.
  Status write(const Sink& sink,
               const std::function<Status(std::uint64_t payload)>& write_payload) const;

 private:
  std::string_view skeleton_;
  std::vector<std::uint64_t> payload_bytes_;
  std::vector<std::uint64_t> message_bytes_;  // expanded sizes of nested messages, in walk order
  std::uint64_t total_bytes_ = 0;
};

}  // namespace mezzo
