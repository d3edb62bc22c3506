#include "runtime/exec/plan_file.h"

#include <climits>
#include <filesystem>

#include "compiler/support/mapped_file.h"
#include "runtime/exec/plan_check.h"
#include "runtime/io/safetensors.h"

namespace mezzo::runtime {
namespace {

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

StatusOr<LoadedPlan> load_plan(const std::string& path) {
  MEZZO_ASSIGN_OR_RETURN(const auto file, MappedFile::open(path));
  auto plan = std::make_shared<proto::Plan>();
  if (file->size() > INT_MAX || file->size() == 0 ||
      !plan->ParseFromArray(file->bytes().data(), static_cast<int>(file->size()))) {
    return invalid_argument(
        path +
        ": not a plan, or damaged. Hint: `mezzo compile model.onnx -o model.plan` makes one");
  }
  MEZZO_RETURN_IF_ERROR(check_plan(*plan).with_context(path));
  LoadedPlan loaded;
  loaded.plan = plan;
  if (plan->provenance().weights_file().empty()) {
    loaded.weights = [path](const std::string& tensor) -> StatusOr<std::span<const std::byte>> {
      return invalid_argument(path + ": wants weights for '" + tensor +
                              "' but names no weights file");
    };
    return loaded;
  }
  MEZZO_ASSIGN_OR_RETURN(loaded.weights, open_weights(path, plan->provenance().weights_file()));
  return loaded;
}

}  // namespace mezzo::runtime
