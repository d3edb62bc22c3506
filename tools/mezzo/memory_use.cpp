#include "tools/mezzo/memory_use.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace mezzo::cli {
namespace {

// The field `name` of /proc/self/status, in bytes; 0 if it is not there.
std::uint64_t status_field(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(name + ":")) continue;
    std::uint64_t kib = 0;
    std::istringstream(line.substr(name.size() + 1)) >> kib;
    return kib * 1024;
  }
  return 0;
}

}  // namespace

ResidentBytes resident_bytes() { return {status_field("VmRSS"), status_field("RssFile")}; }

std::uint64_t peak_resident_bytes() {
  if (const std::uint64_t peak = status_field("VmHWM"); peak > 0) return peak;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

void reset_peak_resident() {
  std::ofstream("/proc/self/clear_refs") << "5";  // see proc(5)
}

std::uint64_t peak_growth_bytes(const ResidentBytes& before) {
  const std::uint64_t files = std::max(resident_bytes().of_files, before.of_files);
  const std::uint64_t rest = peak_resident_bytes() - std::min(peak_resident_bytes(), files);
  return rest - std::min(rest, before.total - before.of_files);
}

}  // namespace mezzo::cli
