// mezzo devices: where models can run on this machine.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "compiler/report/text_table.h"
#include "compiler/support/json_util.h"
#include "compiler/support/text.h"
#include "runtime/device/device.h"
#include "tools/mezzo/command.h"
#include "tools/mezzo/file_kind.h"
#include "tools/mezzo/options.h"

namespace mezzo::cli {
namespace {

StatusOr<std::vector<runtime::DeviceInfo>> cuda_devices() {
  MEZZO_ASSIGN_OR_RETURN(runtime::DeviceModule* const module, runtime::load_cuda_module());
  return module->list();
}

std::string capability(const runtime::DeviceInfo& info) {
  return std::to_string(info.major) + "." + std::to_string(info.minor);
}

nlohmann::ordered_json to_json(const StatusOr<std::vector<runtime::DeviceInfo>>& cuda) {
  nlohmann::ordered_json devices = nlohmann::ordered_json::array();
  devices.push_back({{"device", "cpu"}, {"threads", ThreadOptions().count()}});
  if (cuda.ok()) {
    for (const runtime::DeviceInfo& info : *cuda) {
      devices.push_back({{"device", "cuda:" + std::to_string(info.index)},
                         {"name", info.name},
                         {"compute_capability", capability(info)},
                         {"multiprocessors", info.multiprocessors},
                         {"total_bytes", info.total_bytes},
                         {"free_bytes", info.free_bytes},
                         {"libraries", info.libraries}});
    }
  }
  nlohmann::ordered_json all = {{"devices", std::move(devices)}};
  if (!cuda.ok())
    all["cuda_missing"] = cuda.status().message();
  else if (cuda->empty())
    all["cuda_missing"] = "no CUDA device was found";
  return all;
}

void print_table(const StatusOr<std::vector<runtime::DeviceInfo>>& cuda) {
  TextTable table({{"device"}, {"name"}, {"memory", true}, {"free", true}, {"remarks"}});
  table.add({"cpu", "", "", "", std::to_string(ThreadOptions().count()) + " threads"});
  if (cuda.ok()) {
    for (const runtime::DeviceInfo& info : *cuda) {
      table.add({"cuda:" + std::to_string(info.index), printable(info.name),
                 format_bytes(info.total_bytes), format_bytes(info.free_bytes),
                 "compute capability " + capability(info) + ", " + info.libraries});
    }
  }
  std::fputs(table.text(terminal_width()).c_str(), stdout);
  if (!cuda.ok())
    std::printf("no CUDA: %s\n", printable(cuda.status().message(), 1000).c_str());
  else if (cuda->empty())
    std::printf("no CUDA device was found\n");
}

}  // namespace

// That a machine has no GPU is an answer, not an error.
Work add_devices(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "As JSON");
  return [json] {
    const auto cuda = cuda_devices();
    if (*json)
      std::printf("%s\n", to_json(cuda).dump(2).c_str());
    else
      print_table(cuda);
    return ok_status();
  };
}

}  // namespace mezzo::cli
