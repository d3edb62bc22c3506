// Checks the CUDA part on a GPU and writes what it found as JSON. tools/gpu_check packs and calls
// it.
//
//   gpu_check FOLDER OUT.json [options]
//
// FOLDER holds what was packed: bin/mezzo, bin/gpu_kernels_test, lib/, refs/, networks/, pack.json.
//   --limit SECONDS       for all of it; 460
//   --no-torch            without PyTorch beside the networks
//   --python PROGRAM      that has PyTorch; python3
//   --jobs N              programs at once where no time is measured
//   --kernels FILTER      some of the kernel tests, as --gtest_filter has it
//   --references A,B      some of the trainings;     "none": none of them
//   --networks A,B        some of the networks, or others in FOLDER/networks; "none"
//   --steps N             of the networks; 24
//   --small               the networks with everything small, 8 steps of them, and no PyTorch
//   --work FOLDER         for files of the runs, some 3 GB
//
// Environment: MEZZO_GPU_CHECK_LIBRARIES, where the programs of FOLDER find theirs;
// MEZZO_GPU_CHECK_LOADER, the dynamic loader that starts them where the machine's own is too old.
//
// OUT.json is written after every part, with "complete" true at the end. Exit status 0 when all
// that was asked for was run and passed, 1 otherwise, 2 for usage.
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/gpu/check.h"
#include "tests/gpu/kernel_tests.h"
#include "tests/gpu/machine.h"
#include "tests/gpu/networks.h"
#include "tests/gpu/references.h"
#include "tests/gpu/sanitizer.h"

namespace mezzo::gpu {
namespace {

// The parts' ends as shares of the limit; what one leaves over is the next one's.
constexpr double kKernelsEnd = 0.30, kReferencesEnd = 0.47, kSanitizerEnd = 0.56;
constexpr double kWarmupEnd = 0.40;  // beside them; networks wait for it
constexpr double kLastSeconds = 5;   // to end what is cut off, and to write
constexpr int kMostJobs = 8;
constexpr std::uint64_t kDeviceBytesPerJob = std::uint64_t{2} << 30;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

// Checkpoints of the networks are a gigabyte and more each, and written to stay: memory is fastest.
std::string work_folder() {
  constexpr std::uint64_t kEnough = std::uint64_t{16} << 30;
  struct statvfs space {};
  const bool in_memory = statvfs("/dev/shm", &space) == 0 &&
                         std::uint64_t{space.f_bavail} * space.f_frsize >= kEnough &&
                         access("/dev/shm", W_OK) == 0;
  std::error_code error;
  const auto parent =
      in_memory ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path(error);
  return parent / ("mezzo_gpu_check_" + std::to_string(getpid()));
}

// The result so far, in place of the one before.
bool write(const std::string& path, const Json& result) {
  const std::string next = path + ".part";
  std::ofstream file(next);
  file << result.dump(1, ' ', false, Json::error_handler_t::replace) << "\n";
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(next, path, error);
  if (file && !error) return true;
  std::fprintf(stderr, "gpu_check: cannot write %s\n", path.c_str());
  return false;
}

class Whole {
 public:
  Whole(Check check, std::string out) : check_(std::move(check)), out_(std::move(out)) {
    result_ = {{"complete", false}, {"limit_s", check_.limit_s}, {"limited", limited()}};
  }

  int run() {
    if (!write(out_, result_)) return 1;  // before eight minutes have gone by
    tell(check_, "looking at the machine");
    result_["machine"] = describe_machine(check_);
    if (!result_["machine"].contains("device")) {
      result_["verdict"] = kNotRun;
      result_["error"] = result_["machine"].value("error", Json("no CUDA device was found"));
      return finish();
    }
    check_.device_bytes = result_["machine"]["device"].value("total_bytes", std::uint64_t{0});
    const auto room = static_cast<int>(check_.device_bytes / kDeviceBytesPerJob);
    check_.jobs = std::clamp(room, 1, check_.jobs);
    std::filesystem::create_directories(check_.work);
    TorchWarmup warmup(check_, check_.until(kWarmupEnd));
    part("kernels", check_.kernels,
         [&] { return run_kernel_tests(check_, check_.until(kKernelsEnd)); });
    part("references", check_.references,
         [&] { return run_references(check_, check_.until(kReferencesEnd)); });
    part("compute_sanitizer", check_.kernels,
         [&] { return run_sanitizer(check_, check_.until(kSanitizerEnd)); });
    result_["torch_warmup"] = warmup.finish();
    part("networks", check_.networks,
         [&] { return run_networks(check_, check_.until(1) - kLastSeconds); });
    std::error_code ignored;
    std::filesystem::remove_all(check_.work, ignored);
    return finish();
  }

 private:
  // A part that throws is a failed part.
  template <typename Run>
  void part(const char* name, const std::string& which, const Run& run) {
    if (which == "none") return;
    tell(check_, std::string(name) + " begin");
    Json& json = result_[name];
    try {
      json = run();
    } catch (const std::exception& error) {
      json = {{"verdict", kFailed}, {"error", error.what()}};
    }
    const auto verdict = json["verdict"].get<std::string>();
    result_["verdict"] = worse(result_.value("verdict", std::string(kAbsent)), verdict);
    tell(check_, std::string(name) + ": " + verdict);
    write(out_, result_);
  }

  Json limited() const {
    Json all = Json::object();
    if (check_.kernels != "*") all["kernels"] = check_.kernels;
    if (!check_.references.empty()) all["references"] = check_.references;
    if (!check_.networks.empty()) all["networks"] = check_.networks;
    if (check_.networks_folder != Check().networks_folder) all["folder"] = check_.networks_folder;
    if (check_.steps != Check().steps) all["steps"] = check_.steps;
    return all;
  }

  int finish() {
    result_["seconds"] = now_s() - check_.start_s;
    result_["complete"] = true;
    const bool written = write(out_, result_);
    const auto verdict = result_.value("verdict", std::string(kNotRun));
    std::printf("%s: %s\n", out_.c_str(), verdict.c_str());
    if (result_.contains("error")) std::printf("%s\n", result_["error"].dump(1).c_str());
    return written && verdict == kPassed ? 0 : 1;
  }

  Check check_;
  std::string out_;
  Json result_;
};

void set_environment(Check& check) {
  const std::string libraries = variable("MEZZO_GPU_CHECK_LIBRARIES");
  const std::string loader = variable("MEZZO_GPU_CHECK_LOADER");
  if (!loader.empty()) {
    check.loader = {loader, "--library-path", libraries};
    // Without it mezzo sets it and starts itself anew, which here would start the loader.
    check.ours["GOMP_SPINCOUNT"] = "5000";
  } else if (!libraries.empty()) {
    check.ours["LD_LIBRARY_PATH"] = libraries;
  }
  check.ours["XDG_CACHE_HOME"] = check.work + "/cache";
  check.ours["CUDA_CACHE_PATH"] = check.work + "/cuda_cache";
  const auto processors = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  if (check.jobs <= 0) check.jobs = std::clamp(processors / 2, 1, kMostJobs);
  check.ours["OMP_NUM_THREADS"] = std::to_string(std::max(1, processors / check.jobs));
}

int usage() {
  std::fprintf(stderr,
               "usage: gpu_check FOLDER OUT.json [--limit SECONDS] [--no-torch] [--python PROGRAM] "
               "[--jobs N] [--kernels FILTER] [--references A,B] [--networks A,B] [--steps N] "
               "[--small] [--work FOLDER]\n");
  return 2;
}

}  // namespace
}  // namespace mezzo::gpu

int main(int count, char** arguments) {
  mezzo::gpu::Check check;
  check.start_s = mezzo::gpu::now_s();
  check.jobs = 0;
  std::vector<std::string> places;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    if (argument == "--no-torch") {
      check.with_torch = false;
      continue;
    }
    if (argument == "--small") {
      check.networks_folder += "/small";
      check.with_torch = false;
      check.steps = 8;
      continue;
    }
    if (!argument.starts_with("--")) {
      places.push_back(argument);
      continue;
    }
    if (++i == count) return mezzo::gpu::usage();
    const std::string value = arguments[i];
    if (argument == "--limit")
      check.limit_s = std::strtod(value.c_str(), nullptr);
    else if (argument == "--jobs")
      check.jobs = std::atoi(value.c_str());
    else if (argument == "--steps")
      check.steps = std::atoi(value.c_str());
    else if (argument == "--python")
      check.python = value;
    else if (argument == "--kernels")
      check.kernels = value;
    else if (argument == "--references")
      check.references = value;
    else if (argument == "--networks")
      check.networks = value;
    else if (argument == "--work")
      check.work = value;
    else
      return mezzo::gpu::usage();
  }
  if (places.size() != 2 || !(check.limit_s > 0) || check.steps < 4) return mezzo::gpu::usage();
  check.folder = std::filesystem::absolute(places[0]);
  if (check.work.empty()) check.work = mezzo::gpu::work_folder();
  mezzo::gpu::set_environment(check);
  return mezzo::gpu::Whole(std::move(check), places[1]).run();
}
