#include "tools/mezzo/device_options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <cstdlib>

#include "compiler/support/text.h"
#include "tools/mezzo/option_checks.h"

namespace mezzo::cli {
namespace {

// The number behind "cuda:"; 0 for "cuda". InvalidArgument for any other text.
StatusOr<int> device_index(const std::string& name) {
  const auto wrong = [&] {
    return invalid_argument("expected cpu, cuda or cuda:N, got '" + printable(name) + "'");
  };
  if (name == "cpu" || name == "cuda") return 0;
  if (!name.starts_with("cuda:")) return wrong();
  int index = 0;
  const char* end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + 5, end, index);
  if (error != std::errc() || at != end || index < 0) return wrong();
  return index;
}

// Where libraries' choices of algorithms are kept between runs; empty where there is no home. The
// XDG base directory specification says that relative paths do not count.
std::string cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/')
    return std::string(cache) + "/mezzo/cuda";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/')
    return std::string(home) + "/.cache/mezzo/cuda";
  return {};
}

}  // namespace

void DeviceArguments::add_name_to(CLI::App& app) {
  app.add_option("--device", name,
                 "Where to run: cpu, cuda, or cuda:N (`mezzo devices` lists them)")
      ->type_name("NAME")
      ->check(accepted_by([](const std::string& text) { return device_index(text).status(); }))
      ->capture_default_str();
}

void DeviceArguments::add_to(CLI::App& app) {
  add_name_to(app);
  app.add_flag("--tf32", allow_tf32,
               "With --device cuda: contractions of float32 may round their operands to TF32 (10 "
               "bits), which is faster");
  app.add_option(
         "--tune", timed_algorithms,
         "With --device cuda: time that many algorithms for every matrix product before the "
         "first step, and keep the fastest for later runs; 1 takes the library's first")
      ->type_name("N")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
}

StatusOr<std::shared_ptr<runtime::Device>> DeviceArguments::open() const {
  if (kind() == DeviceKind::kCpu) {
    if (allow_tf32) return invalid_argument("--tf32: only with --device cuda");
    if (timed_algorithms != 1) return invalid_argument("--tune: only with --device cuda");
    return std::shared_ptr<runtime::Device>();
  }
  MEZZO_ASSIGN_OR_RETURN(const int index, device_index(name));
  MEZZO_ASSIGN_OR_RETURN(runtime::DeviceModule* const module, runtime::load_cuda_module());
  auto device = module->open({index, allow_tf32, cache_folder(), timed_algorithms});
  if (!device.ok()) return device.status();
  return std::shared_ptr<runtime::Device>(std::move(device).value());
}

void tell_host_steps(const runtime::Executor& executor) {
  const std::string steps = executor.not_capturable();
  if (steps.empty()) return;
  std::fprintf(stderr, "note: computed on the CPU, with copies to and fro, which is slow: %s\n",
               printable(steps, 500).c_str());
}

}  // namespace mezzo::cli
