#include "compiler/onnx/export.h"

#include <google/protobuf/arena.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <variant>

#include "compiler/onnx/proto_builder.h"
#include "compiler/onnx/proto_types.h"
#include "compiler/onnx/wire.h"
#include "compiler/support/atomic_file.h"
#include "compiler/support/mapped_file.h"
#include "compiler/support/text.h"

namespace mezzo {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kLargeAlignment = 65536;  // what Windows maps at

std::uint64_t align(std::uint64_t offset, std::uint64_t bytes) {
  const std::uint64_t alignment = bytes >= kLargeAlignment ? kLargeAlignment : kPageBytes;
  return (offset + alignment - 1) / alignment * alignment;
}

// What goes where: a skeleton whose markers number `payloads`, and the data file's layout.
class Layout {
 public:
  Layout(const ExportOptions& options, std::string location, bool all_large)
      : options_(options), location_(std::move(location)), all_large_(all_large) {}

  Status build(const Model& model) {
    const ProtoBuilder builder(
        [this](const TensorRef& tensor, onnx::TensorProto& proto) { return store(tensor, proto); });
    google::protobuf::Arena arena;  // many small messages, taken apart at once
    auto& proto = *google::protobuf::Arena::CreateMessage<onnx::ModelProto>(&arena);
    MEZZO_RETURN_IF_ERROR(builder.build(model, proto));
    if (proto.ByteSizeLong() > kMaxProtoBytes || !proto.SerializeToString(&skeleton_)) {
      return invalid_argument("expected at most 2 GiB beside raw data, got more");
    }
    std::vector<std::uint64_t> payload_bytes;
    for (const TensorRef& payload : payloads_) payload_bytes.push_back(payload->byte_size());
    MEZZO_ASSIGN_OR_RETURN(expansion_, Expansion::plan(skeleton_, payload_bytes));
    return ok_status();
  }

  std::uint64_t model_bytes() const { return expansion_->total_bytes(); }
  bool has_external() const { return !external_.empty(); }

  template <typename Visit>
  void for_each_tensor(const Visit& visit) const {
    for (const auto& [offset, tensor] : external_) visit(*tensor);
    for (const TensorRef& tensor : payloads_) visit(*tensor);
  }

  Status write_data(AtomicFile& file) const {
    for (const auto& [offset, tensor] : external_) {
      MEZZO_RETURN_IF_ERROR(file.write_zeros(offset - file.position()));
      MEZZO_RETURN_IF_ERROR(write_tensor(*tensor, file));
    }
    return ok_status();
  }

  Status write_model(AtomicFile& file) const {
    return expansion_->write(
        [&](std::span<const std::byte> bytes) { return file.write(bytes); },
        [&](std::uint64_t payload) { return write_tensor(*payloads_[payload], file); });
  }

 private:
  static Status write_tensor(const Tensor& tensor, AtomicFile& file) {
    const std::uint64_t end = file.position() + tensor.byte_size();
    MEZZO_RETURN_IF_ERROR(
        tensor.stream([&](std::span<const std::byte> piece) { return file.write(piece); }));
    if (file.position() == end) return ok_status();
    return internal_error("a tensor gave another number of bytes than its type has");
  }

  bool is_external(const Tensor& tensor) const {
    const std::uint64_t bytes = tensor.byte_size();
    if (bytes == 0 || options_.external_data == ExternalData::kNever) return false;
    if (all_large_ && bytes >= options_.threshold_bytes) return true;
    return options_.external_data == ExternalData::kAuto &&
           tensor.origin().field == Tensor::Field::kExternal;
  }

  Status store(const TensorRef& tensor, onnx::TensorProto& proto) {
    if (is_external(*tensor)) {
      store_external(tensor, proto);
      return ok_status();
    }
    if (is_stored_typed(*tensor)) return store_typed(tensor, proto);
    proto.set_raw_data(encode_marker(payloads_.size()));
    payloads_.push_back(tensor);
    return ok_status();
  }

  void store_external(const TensorRef& tensor, onnx::TensorProto& proto) {
    const std::uint64_t bytes = tensor->byte_size();
    const auto [entry, is_new] = offsets_.try_emplace(tensor.get(), 0);
    if (is_new) {
      entry->second = align(end_, bytes);
      end_ = entry->second + bytes;
      external_.emplace_back(entry->second, tensor);
    }
    std::map<std::string, std::string> fresh = {{"location", location_},
                                                {"offset", std::to_string(entry->second)},
                                                {"length", std::to_string(bytes)}};
    // Keys as found, in their order. A checksum is one of the whole file, which is another now.
    StringPairs pairs;
    for (const auto& [key, value] : tensor->origin().external_data) {
      if (key == "checksum") continue;
      const auto found = fresh.find(key);
      pairs.emplace_back(key, found == fresh.end() ? value : found->second);
      if (found != fresh.end()) fresh.erase(found);
    }
    for (const std::string key : {"location", "offset", "length"}) {
      if (const auto found = fresh.find(key); found != fresh.end()) {
        pairs.emplace_back(found->first, found->second);
      }
    }
    pairs_to_proto(pairs, *proto.mutable_external_data());
    proto.set_data_location(onnx::TensorProto::EXTERNAL);
  }

  ExportOptions options_;
  std::string location_;
  bool all_large_;
  std::string skeleton_;
  std::vector<TensorRef> payloads_;
  std::optional<Expansion> expansion_;
  std::vector<std::pair<std::uint64_t, TensorRef>> external_;  // by offset
  std::map<const Tensor*, std::uint64_t> offsets_;  // tensors in use twice are written once
  std::uint64_t end_ = 0;
};

Status check_size(const Layout& layout, std::uint64_t limit) {
  if (layout.model_bytes() <= limit) return ok_status();
  return invalid_argument("expected a model file of at most " + format_bytes(limit) + ", got " +
                          format_bytes(layout.model_bytes()) +
                          ". Hint: store large tensors as external data");
}

// True if both names mean one file.
bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  return std::filesystem::equivalent(a, b, error) && !error;
}

// The mapped file that holds a tensor's bytes, or those that they are computed from; may be null.
const MappedFile* file_of(const Tensor& tensor) {
  if (const auto* slice = std::get_if<Tensor::FileSlice>(&tensor.storage())) {
    return slice->file.get();
  }
  if (const auto* cast = std::get_if<Tensor::CastOf>(&tensor.storage())) {
    return file_of(*cast->source);
  }
  if (const auto* pad = std::get_if<Tensor::PadOf>(&tensor.storage())) return file_of(*pad->source);
  return nullptr;
}

// What is written must not take the place of a file that the model was read from, unless it is the
// model itself that is replaced: the old one would be left with data that are not its own.
Status check_places(const Layout& layout, const Model& model, const std::string& path) {
  if (is_same_file(path, model.source_path)) return ok_status();
  std::string taken;
  const auto check = [&](const std::string& file) {
    if (is_same_file(path, file)) taken = path;
    if (layout.has_external() && is_same_file(path + ".data", file)) taken = path + ".data";
  };
  check(model.source_path);
  const MappedFile* last = nullptr;  // many tensors, few files
  layout.for_each_tensor([&](const Tensor& tensor) {
    const MappedFile* file = file_of(tensor);
    if (file != nullptr && file != last) check(file->path());
    last = file;
  });
  if (taken.empty()) return ok_status();
  return invalid_argument(printable(taken) + ": expected a place for the output, got a file that " +
                          "the model reads its data from. Hint: choose another name");
}

Status write_files(const Layout& layout, const std::string& path) {
  std::optional<AtomicFile> data;
  if (layout.has_external()) {
    MEZZO_ASSIGN_OR_RETURN(data, AtomicFile::create(path + ".data"));
    MEZZO_RETURN_IF_ERROR(layout.write_data(*data));
  }
  MEZZO_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  MEZZO_RETURN_IF_ERROR(layout.write_model(file));
  // An old model of this name may read the old data: both stay until both new files are complete.
  if (data) MEZZO_RETURN_IF_ERROR(data->finish());
  MEZZO_RETURN_IF_ERROR(file.finish());
  if (data) MEZZO_RETURN_IF_ERROR(data->commit());
  return file.commit();
}

}  // namespace

Status export_model(const Model& model, const std::string& path, const ExportOptions& options) {
  const std::string name = std::filesystem::path(path).filename().string();
  const std::string location = name + ".data";
  const std::uint64_t limit = std::min(options.max_model_bytes, kMaxProtoBytes);
  Layout layout(options, location, options.external_data == ExternalData::kAlways);
  MEZZO_RETURN_IF_ERROR(layout.build(model).with_context(printable(name)));
  if (layout.model_bytes() > limit && options.external_data == ExternalData::kAuto) {
    layout = Layout(options, location, true);
    MEZZO_RETURN_IF_ERROR(layout.build(model).with_context(printable(name)));
  }
  MEZZO_RETURN_IF_ERROR(check_size(layout, limit).with_context(printable(name)));
  MEZZO_RETURN_IF_ERROR(check_places(layout, model, path));
  return write_files(layout, path);
}

Status to_proto(const Model& model, const ProtoOptions& options, onnx::ModelProto& proto) {
  std::vector<TensorRef> elided;
  const auto store = [&](const TensorRef& tensor, onnx::TensorProto& out) {
    if (options.weights == Weights::kEmbedded || tensor->byte_size() <= options.elide_above_bytes) {
      return store_embedded(tensor, out);
    }
    store_elided(elided.size(), out);
    elided.push_back(tensor);
    return ok_status();
  };
  MEZZO_RETURN_IF_ERROR(ProtoBuilder(store).build(model, proto));
  if (options.elided) *options.elided = std::move(elided);
  return ok_status();
}

void refresh_value_info(Graph& graph, bool list_all) {
  const auto is_typed = [](const Value* value) {
    return value && value->type.kind != Type::Kind::kUnknown;
  };
  std::set<std::string> listed;
  std::erase_if(graph.value_info, [&](ValueInfo& info) {
    const Value* value = graph.find(info.name);
    if (!is_typed(value) || !listed.insert(info.name).second) return true;
    info.type = value->type;
    return false;
  });
  for (const auto& node : graph.nodes()) {
    for (const Value* result : node->results()) {
      if (list_all && is_typed(result) && !result->is_graph_output() &&
          !listed.contains(result->name())) {
        graph.value_info.push_back({result->name(), result->type, {}, {}});
      }
    }
    for (Graph* inner : node->subgraphs()) refresh_value_info(*inner, list_all);
  }
}

}  // namespace mezzo
