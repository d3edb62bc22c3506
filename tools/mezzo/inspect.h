// What `mezzo inspect` and `mezzo report` say of files that are no reports.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "compiler/support/status.h"

namespace mezzo {
struct Model;
}
namespace mezzo::proto {
class Plan;
}

namespace mezzo::cli {

struct Inspection {
  std::string text;                            // for terminals
  std::shared_ptr<const nlohmann::json> json;  // the same for machines
};

struct InspectOptions {
  int width = 0;            // of the terminal; 0: nothing is cut
  std::string loss_output;  // for models: which output is the loss
};

// InvalidArgument: not such a file, or damaged.
StatusOr<Inspection> inspect_model(const std::string& path, const InspectOptions& options);
StatusOr<Inspection> inspect_plan(const std::string& path, const InspectOptions& options);
StatusOr<Inspection> inspect_checkpoint(const std::string& folder, const InspectOptions& options);
StatusOr<Inspection> inspect_ort_checkpoint(const std::string& path, const InspectOptions& options);
StatusOr<Inspection> inspect_safetensors(const std::string& path, const InspectOptions& options);
StatusOr<Inspection> inspect_npz(const std::string& path, const InspectOptions& options);

// A report that `convert --json` wrote: its totals.
StatusOr<Inspection> inspect_report(const std::string& path, const InspectOptions& options);

}  // namespace mezzo::cli
