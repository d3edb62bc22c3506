#include "runtime/exec/plan_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <climits>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>

#include "compiler/support/mapped_file.h"
#include "compiler/support/text.h"
#include "runtime/exec/plan_check.h"
#include "runtime/io/little_endian.h"
#include "runtime/io/safetensors.h"

namespace mezzo::runtime {
namespace {

constexpr std::size_t kHeaderBytes = kPlanMagic.size() + 2 * sizeof(std::uint64_t);

// A plain file name: a plan must not reach out of its folder.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

StatusOr<WeightSource> open_weights(const std::string& plan_path, const std::string& name) {
  if (!is_plain_name(name))
    return invalid_argument(plan_path + ": the weights file's name is not a plain file name");
  const std::string path = (std::filesystem::path(plan_path).parent_path() / name).string();
  MEZZO_ASSIGN_OR_RETURN(SafetensorsFile opened, SafetensorsFile::open(path));
  const auto file = std::make_shared<const SafetensorsFile>(std::move(opened));
  return WeightSource([file](const std::string& tensor) -> StatusOr<std::span<const std::byte>> {
    const SafetensorsEntry* entry = file->find(tensor);
    if (entry == nullptr)
      return invalid_argument(file->path() + ": holds no tensor '" + tensor + "'");
    return entry->bytes;
  });
}

}  // namespace

std::string plan_file_bytes(const proto::Plan& plan) {
  const std::string message = plan.SerializeAsString();
  std::string bytes(kPlanMagic);
  append<std::uint64_t>(bytes, message.size());
  append<std::uint64_t>(bytes, XXH3_64bits(message.data(), message.size()));
  return bytes + message;
}

StatusOr<std::shared_ptr<const proto::Plan>> read_plan(const std::string& path) {
  MEZZO_ASSIGN_OR_RETURN(const auto file, MappedFile::open(path));
  const std::span<const std::byte> bytes = file->bytes();
  if (bytes.size() < kHeaderBytes ||
      std::memcmp(bytes.data(), kPlanMagic.data(), kPlanMagic.size()) != 0) {
    return invalid_argument(
        printable(path) + ": not a plan. Hint: `mezzo compile model.onnx -o model.plan` makes one");
  }
  const std::span<const std::byte> message = bytes.subspan(kHeaderBytes);
  const auto stated = load<std::uint64_t>(bytes, kPlanMagic.size());
  const auto checksum = load<std::uint64_t>(bytes, kPlanMagic.size() + sizeof stated);
  if (stated != message.size()) {
    return invalid_argument(printable(path) + ": expected " + std::to_string(stated) +
                            " bytes behind the header, got " + std::to_string(message.size()) +
                            ". Hint: the file is cut off or damaged; compile the model again");
  }
  auto plan = std::make_shared<proto::Plan>();
  if (checksum != XXH3_64bits(message.data(), message.size()) || message.size() > INT_MAX ||
      !plan->ParseFromArray(message.data(), static_cast<int>(message.size()))) {
    return invalid_argument(printable(path) +
                            ": the plan is damaged. Hint: compile the model again");
  }
  MEZZO_RETURN_IF_ERROR(check_plan(*plan).with_context(printable(path)));
  return std::shared_ptr<const proto::Plan>(std::move(plan));
}

StatusOr<LoadedPlan> load_plan(const std::string& path) {
  LoadedPlan loaded;
  MEZZO_ASSIGN_OR_RETURN(loaded.plan, read_plan(path));
  const std::string& weights_file = loaded.plan->provenance().weights_file();
  if (weights_file.empty()) {
    loaded.weights = [path](const std::string& tensor) -> StatusOr<std::span<const std::byte>> {
      return invalid_argument(printable(path) + ": wants weights for '" + printable(tensor) +
                              "' but names no weights file");
    };
    return loaded;
  }
  MEZZO_ASSIGN_OR_RETURN(loaded.weights, open_weights(path, weights_file));
  return loaded;
}

}  // namespace mezzo::runtime
