#include "compiler/onnx/wire.h"

#include <cstring>
#include <limits>

namespace mezzo {
namespace {

// Messages on a path from ModelProto to a TensorProto.
enum class Message : std::uint8_t {
  kModel,
  kGraph,
  kNode,
  kAttribute,
  kFunction,
  kTrainingInfo,
  kSparseTensor,
  kTensor
};

constexpr std::uint32_t kRawDataField = 9;
constexpr int kMaxDepth = 100;  // protobuf's default recursion limit
constexpr std::size_t kMarkerBytes = 8;
// Length prefixes of nested skeleton messages are written in a fixed width, as they are known only
// afterwards. Longer varints than needed are valid on the wire.
constexpr std::size_t kPaddedLengthBytes = 5;

struct Edge {
  Message from;
  std::uint32_t field;
  Message to;
};

// Field numbers of onnx.proto; they cannot change.
constexpr Edge kEdges[] = {
    {Message::kModel, 7, Message::kGraph},
    {Message::kModel, 20, Message::kTrainingInfo},
    {Message::kModel, 25, Message::kFunction},
    {Message::kTrainingInfo, 1, Message::kGraph},
    {Message::kTrainingInfo, 2, Message::kGraph},
    {Message::kFunction, 7, Message::kNode},
    {Message::kFunction, 11, Message::kAttribute},
    {Message::kGraph, 1, Message::kNode},
    {Message::kGraph, 5, Message::kTensor},
    {Message::kGraph, 15, Message::kSparseTensor},
    {Message::kNode, 5, Message::kAttribute},
    {Message::kAttribute, 5, Message::kTensor},
    {Message::kAttribute, 6, Message::kGraph},
    {Message::kAttribute, 10, Message::kTensor},
    {Message::kAttribute, 11, Message::kGraph},
    {Message::kAttribute, 22, Message::kSparseTensor},
    {Message::kAttribute, 23, Message::kSparseTensor},
    {Message::kSparseTensor, 1, Message::kTensor},
    {Message::kSparseTensor, 2, Message::kTensor},
};

std::optional<Message> child_of(Message message, std::uint32_t field) {
  for (const Edge& edge : kEdges) {
    if (edge.from == message && edge.field == field) return edge.to;
  }
  return std::nullopt;
}

enum WireType : std::uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kLengthDelimited = 2,
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5
};

Status malformed(std::string_view what, std::uint64_t offset) {
  return invalid_argument("not a protobuf message: " + std::string(what) + " at byte " +
                          std::to_string(offset));
}

// One field: its tag starts at `begin`, its contents at `data`, the next field at `end`.
struct Field {
  std::uint32_t number = 0;
  std::uint32_t type = 0;
  std::size_t begin = 0, length_at = 0, data = 0, end = 0;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  Status read_field(std::size_t pos, std::size_t end, int depth, Field& field) const {
    field.begin = pos;
    std::uint64_t tag = 0;
    MEZZO_RETURN_IF_ERROR(read_varint(pos, end, tag));
    if (tag > std::numeric_limits<std::uint32_t>::max() || (tag >> 3) == 0) {
      return malformed("invalid field tag", field.begin);
    }
    field.number = static_cast<std::uint32_t>(tag >> 3);
    field.type = static_cast<std::uint32_t>(tag & 7);
    field.length_at = field.data = pos;
    std::uint64_t value = 0;
    switch (field.type) {
      case kVarint: MEZZO_RETURN_IF_ERROR(read_varint(pos, end, value)); break;
      case kFixed64:
      case kFixed32: {
        const std::size_t width = field.type == kFixed64 ? 8 : 4;
        if (end - pos < width) return malformed("truncated field", field.begin);
        pos += width;
        break;
      }
      case kLengthDelimited:
        MEZZO_RETURN_IF_ERROR(read_varint(pos, end, value));
        if (value > end - pos) {
          return malformed("a length of " + std::to_string(value) + " where " +
                               std::to_string(end - pos) + " bytes are left",
                           field.begin);
        }
        field.data = pos;
        pos += static_cast<std::size_t>(value);
        break;
      case kStartGroup: MEZZO_RETURN_IF_ERROR(skip_group(field.number, end, depth + 1, pos)); break;
      default: return malformed("invalid wire type", field.begin);
    }
    field.end = pos;
    return ok_status();
  }

  std::string_view text(std::size_t begin, std::size_t end) const {
    return {reinterpret_cast<const char*>(bytes_.data()) + begin, end - begin};
  }
  std::size_t size() const { return bytes_.size(); }

 private:
  Status read_varint(std::size_t& pos, std::size_t end, std::uint64_t& value) const {
    value = 0;
    const std::size_t start = pos;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      if (pos == end) return malformed("truncated number", start);
      const auto byte = static_cast<std::uint64_t>(bytes_[pos++]);
      value |= shift < 64 ? (byte & 0x7f) << shift : 0;
      if ((byte & 0x80) == 0) return ok_status();
    }
    return malformed("a number of more than 10 bytes", start);
  }

  // Moves `pos` behind the end tag of a group (a form that ONNX does not use, kept if met).
  Status skip_group(std::uint32_t number, std::size_t end, int depth, std::size_t& pos) const {
    if (depth > kMaxDepth) return malformed("nesting deeper than 100", pos);
    while (pos < end) {
      std::size_t peek = pos;
      std::uint64_t tag = 0;
      MEZZO_RETURN_IF_ERROR(read_varint(peek, end, tag));
      if ((tag & 7) == kEndGroup) {
        if ((tag >> 3) != number) return malformed("unmatched end of a group", pos);
        pos = peek;
        return ok_status();
      }
      Field field;
      MEZZO_RETURN_IF_ERROR(read_field(pos, end, depth, field));
      pos = field.end;
    }
    return malformed("unfinished group", pos);
  }

  std::span<const std::byte> bytes_;
};

void append_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

std::size_t varint_bytes(std::uint64_t value) {
  std::size_t bytes = 1;
  while (value >= 0x80) {
    ++bytes;
    value >>= 7;
  }
  return bytes;
}

class Stripper {
 public:
  Stripper(std::span<const std::byte> bytes, const std::function<void(std::uint64_t)>& on_payload)
      : reader_(bytes), on_payload_(on_payload) {}

  StatusOr<StrippedModel> run() {
    MEZZO_RETURN_IF_ERROR(strip(Message::kModel, 0, reader_.size(), 1));
    return std::move(out_);
  }

 private:
  Status strip(Message message, std::size_t pos, std::size_t end, int depth) {
    if (depth > kMaxDepth) return malformed("nesting deeper than 100", pos);
    std::size_t copied = pos;  // what lies before is in the skeleton
    while (pos < end) {
      Field field;
      MEZZO_RETURN_IF_ERROR(reader_.read_field(pos, end, depth, field));
      pos = field.end;
      if (field.type != kLengthDelimited) continue;
      if (message == Message::kTensor && field.number == kRawDataField) {
        MEZZO_RETURN_IF_ERROR(append(copied, field.length_at));
        append_varint(out_.skeleton, kMarkerBytes);
        out_.skeleton += encode_marker(out_.payloads.size());
        out_.payloads.push_back({field.data, field.end - field.data});
        if (on_payload_) on_payload_(field.end - field.data);
        copied = pos;
      } else if (const auto child = child_of(message, field.number)) {
        MEZZO_RETURN_IF_ERROR(append(copied, field.length_at));
        const std::size_t length_at = out_.skeleton.size();
        out_.skeleton.append(kPaddedLengthBytes, '\0');
        MEZZO_RETURN_IF_ERROR(strip(*child, field.data, field.end, depth + 1));
        put_length(length_at);
        copied = pos;
      }
    }
    return append(copied, end);
  }

  Status append(std::size_t begin, std::size_t end) {
    if (out_.skeleton.size() + (end - begin) > kMaxProtoBytes) {
      return invalid_argument(
          "expected at most 2 GiB beside the raw_data of its tensors, got more. Hint: store large "
          "tensors as raw_data or external data");
    }
    out_.skeleton.append(reader_.text(begin, end));
    return ok_status();
  }

  void put_length(std::size_t at) {
    std::uint64_t length = out_.skeleton.size() - at - kPaddedLengthBytes;
    for (std::size_t i = 0; i < kPaddedLengthBytes; ++i, length >>= 7) {
      const bool last = i + 1 == kPaddedLengthBytes;
      out_.skeleton[at + i] = static_cast<char>((length & 0x7f) | (last ? 0 : 0x80));
    }
  }

  Reader reader_;
  const std::function<void(std::uint64_t)>& on_payload_;
  StrippedModel out_;
};

std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// The marker in a raw_data field of a skeleton, checked against the number of payloads.
StatusOr<std::uint64_t> payload_of(const Reader& reader, const Field& field, std::size_t payloads) {
  const auto payload = decode_marker(reader.text(field.data, field.end));
  if (!payload || *payload >= payloads) return internal_error("a raw_data field holds no marker");
  return *payload;
}

// First walk: expanded sizes, bottom up, recorded in the order in which messages begin.
class Measure {
 public:
  Measure(std::string_view skeleton, std::span<const std::uint64_t> payload_bytes,
          std::vector<std::uint64_t>& message_bytes)
      : reader_(as_bytes(skeleton)), payload_bytes_(payload_bytes), message_bytes_(message_bytes) {}

  Status run(Message message, std::size_t pos, std::size_t end, std::uint64_t& total) {
    total = 0;
    while (pos < end) {
      Field field;
      MEZZO_RETURN_IF_ERROR(reader_.read_field(pos, end, 1, field));
      pos = field.end;
      std::uint64_t contents = 0;
      if (field.type == kLengthDelimited && message == Message::kTensor &&
          field.number == kRawDataField) {
        MEZZO_ASSIGN_OR_RETURN(const auto payload,
                               payload_of(reader_, field, payload_bytes_.size()));
        contents = payload_bytes_[payload];
      } else if (const auto child = child_of(message, field.number);
                 child && field.type == kLengthDelimited) {
        const std::size_t slot = message_bytes_.size();
        message_bytes_.push_back(0);
        MEZZO_RETURN_IF_ERROR(run(*child, field.data, field.end, contents));
        message_bytes_[slot] = contents;
      } else {
        total += field.end - field.begin;
        continue;
      }
      total += (field.length_at - field.begin) + varint_bytes(contents);
      if (__builtin_add_overflow(total, contents, &total)) {
        return invalid_argument("the tensors of the model add up to more than 2^64 bytes");
      }
    }
    return ok_status();
  }

 private:
  Reader reader_;
  std::span<const std::uint64_t> payload_bytes_;
  std::vector<std::uint64_t>& message_bytes_;
};

// Second walk: writes the fields with their new lengths. Small pieces are gathered.
class Write {
 public:
  Write(std::string_view skeleton, std::span<const std::uint64_t> payload_bytes,
        std::span<const std::uint64_t> message_bytes, const Expansion::Sink& sink,
        const std::function<Status(std::uint64_t)>& write_payload)
      : reader_(as_bytes(skeleton)),
        payload_bytes_(payload_bytes),
        message_bytes_(message_bytes),
        sink_(sink),
        write_payload_(write_payload) {}

  Status run(Message message, std::size_t pos, std::size_t end) {
    while (pos < end) {
      Field field;
      MEZZO_RETURN_IF_ERROR(reader_.read_field(pos, end, 1, field));
      pos = field.end;
      const bool delimited = field.type == kLengthDelimited;
      if (delimited && message == Message::kTensor && field.number == kRawDataField) {
        MEZZO_ASSIGN_OR_RETURN(const auto payload,
                               payload_of(reader_, field, payload_bytes_.size()));
        pending_ += reader_.text(field.begin, field.length_at);
        append_varint(pending_, payload_bytes_[payload]);
        MEZZO_RETURN_IF_ERROR(flush());
        MEZZO_RETURN_IF_ERROR(write_payload_(payload));
      } else if (const auto child = child_of(message, field.number); child && delimited) {
        pending_ += reader_.text(field.begin, field.length_at);
        append_varint(pending_, message_bytes_[next_message_++]);
        MEZZO_RETURN_IF_ERROR(run(*child, field.data, field.end));
      } else {
        pending_ += reader_.text(field.begin, field.end);
        if (pending_.size() >= kGatherBytes) MEZZO_RETURN_IF_ERROR(flush());
      }
    }
    return ok_status();
  }

  Status flush() {
    if (pending_.empty()) return ok_status();
    MEZZO_RETURN_IF_ERROR(sink_(as_bytes(pending_)));
    pending_.clear();
    return ok_status();
  }

 private:
  static constexpr std::size_t kGatherBytes = std::size_t{1} << 16;

  Reader reader_;
  std::span<const std::uint64_t> payload_bytes_, message_bytes_;
  const Expansion::Sink& sink_;
  const std::function<Status(std::uint64_t)>& write_payload_;
  std::size_t next_message_ = 0;
  std::string pending_;
};

}  // namespace

std::string encode_marker(std::uint64_t payload) {
  std::string marker(kMarkerBytes, '\0');
  for (std::size_t i = 0; i < kMarkerBytes; ++i) {
    marker[i] = static_cast<char>((payload >> (8 * i)) & 0xff);
  }
  return marker;
}

std::optional<std::uint64_t> decode_marker(std::string_view raw_data) {
  if (raw_data.size() != kMarkerBytes) return std::nullopt;
  std::uint64_t payload = 0;
  for (std::size_t i = 0; i < kMarkerBytes; ++i) {
    payload |= std::uint64_t{static_cast<unsigned char>(raw_data[i])} << (8 * i);
  }
  return payload;
}

StatusOr<StrippedModel> strip_payloads(
    std::span<const std::byte> model,
    const std::function<void(std::uint64_t payload_bytes)>& on_payload) {
  return Stripper(model, on_payload).run();
}

StatusOr<Expansion> Expansion::plan(std::string_view skeleton,
                                    std::span<const std::uint64_t> payload_bytes) {
  Expansion expansion;
  expansion.skeleton_ = skeleton;
  expansion.payload_bytes_.assign(payload_bytes.begin(), payload_bytes.end());
  Measure measure(skeleton, payload_bytes, expansion.message_bytes_);
  MEZZO_RETURN_IF_ERROR(measure.run(Message::kModel, 0, skeleton.size(), expansion.total_bytes_));
  return expansion;
}

Status Expansion::write(const Sink& sink,
                        const std::function<Status(std::uint64_t)>& write_payload) const {
  Write writer(skeleton_, payload_bytes_, message_bytes_, sink, write_payload);
  MEZZO_RETURN_IF_ERROR(writer.run(Message::kModel, 0, skeleton_.size()));
  return writer.flush();
}

}  // namespace mezzo
