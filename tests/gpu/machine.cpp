#include "tests/gpu/machine.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <thread>

namespace mezzo::gpu {
namespace {

constexpr double kLimit = 60, kSmiLimit = 20;

// {"libcudnn.so.9": "/usr/lib/...", ...} of what the module needs; "not found" where there is none.
Json libraries(const Check& check) {
  std::vector<std::string> command = check.loader;
  if (command.empty()) command.emplace_back("/lib64/ld-linux-x86-64.so.2");
  command.push_back("--list");
  command.push_back(check.folder + "/lib/libmezzo_cuda.so");
  const ProcessResult run = check.run(command, kLimit);
  Json all = Json::object();
  std::istringstream lines(run.output);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t arrow = line.find(" => ");
    const std::size_t begin = line.find_first_not_of(" \t");
    if (arrow == std::string::npos || begin >= arrow) continue;
    std::string file = line.substr(arrow + 4);
    all[line.substr(begin, arrow - begin)] = file.substr(0, file.find(" ("));
  }
  if (all.empty()) all["error"] = describe(run);
  return all;
}

Json nvidia_smi(const Check& check) {
  const ProcessResult run = check.run_other(
      {"nvidia-smi",
       "--query-gpu=name,driver_version,compute_cap,memory.total,memory.used,clocks.max.sm,"
       "clocks.max.memory,power.limit,persistence_mode,mig.mode.current,compute_mode",
       "--format=csv"},
      kSmiLimit);
  return run.ok() ? Json(run.output) : describe(run);
}

// The first of CUDA's devices; null if there is none.
const Json* first_device(const Json& devices) {
  if (!devices.contains("devices")) return nullptr;
  for (const Json& device : devices["devices"]) {
    if (device.value("device", "").starts_with("cuda")) return &device;
  }
  return nullptr;
}

// Whether the pack has machine code that the card takes, which is that of a capability of the same
// first number and no higher second one; else the driver translates, for minutes. Null if unknown.
Json has_code(const Json& pack, const Json& device) {
  if (!pack.is_object() || !device.contains("compute_capability")) return nullptr;
  const std::string capability = device["compute_capability"];
  const std::size_t dot = capability.find('.');
  if (dot == std::string::npos) return nullptr;
  const int major = std::atoi(capability.c_str()), minor = std::atoi(&capability[dot + 1]);
  std::istringstream entries(pack.value("architectures", ""));
  bool any = false;
  for (std::string entry; std::getline(entries, entry, ';'); any = true) {
    const int number = std::atoi(entry.c_str());
    if (!entry.ends_with("-virtual") && number / 10 == major && number % 10 <= minor) return true;
  }
  return any ? Json(false) : Json();
}

std::string what_is_missing(const Json& machine) {
  std::string text;
  for (const auto& [name, file] : machine["libraries"].items()) {
    if (file == "not found") text += name + " was not found; ";
  }
  return text + machine["devices"].value("cuda_missing", "no CUDA device was found");
}

}  // namespace

Json describe_machine(const Check& check) {
  Json machine;
  machine["pack"] = read_json(check.folder + "/pack.json");
  if (machine["pack"].is_discarded()) machine["pack"] = nullptr;
  machine["processors"] = std::thread::hardware_concurrency();
  machine["work"] = check.work;
  machine["nvidia_smi"] = nvidia_smi(check);
  machine["libraries"] = libraries(check);
  auto command = check.program("mezzo");
  command.insert(command.end(), {"devices", "--json"});
  const ProcessResult run = check.run(command, kLimit);
  machine["devices"] = Json::parse(run.output, nullptr, false);
  if (!run.ok() || machine["devices"].is_discarded()) {
    machine["devices"] = Json::object();
    machine["error"] = describe(run);
  } else if (const Json* const device = first_device(machine["devices"])) {
    machine["device"] = *device;
    machine["code_for_this_card"] = has_code(machine["pack"], *device);
    if (machine["code_for_this_card"] == false)
      tell(check,
           "no code for this card came along: the driver translates it, which takes minutes");
  } else {
    machine["error"] = what_is_missing(machine);
  }
  return machine;
}

}  // namespace mezzo::gpu
