#include "tests/gpu/check.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <sstream>
#include <thread>

namespace mezzo::gpu {

std::string_view worse(std::string_view a, std::string_view b) {
  const auto either = [&](std::string_view verdict) { return a == verdict || b == verdict; };
  const auto is_fine = [](std::string_view v) { return v == kPassed || v == kAbsent; };
  if (either(kFailed)) return kFailed;
  if (either(kCutOff) || either(kNotRun)) return kCutOff;
  if (!is_fine(a) || !is_fine(b)) return kFailed;
  return either(kPassed) ? kPassed : kAbsent;
}

std::vector<std::string> Check::program(const std::string& name) const {
  std::vector<std::string> command = loader;
  command.push_back(folder + "/bin/" + name);
  return command;
}

namespace {

Environment joined(const Environment& base, const Environment& more) {
  Environment all = more;
  all.insert(base.begin(), base.end());
  return all;
}

}  // namespace

ProcessResult Check::run(const std::vector<std::string>& command, double limit,
                         const Environment& more) const {
  return run_process(command, limit, joined(ours, more));
}

ProcessResult Check::run_other(const std::vector<std::string>& command, double limit,
                               const Environment& more) const {
  return run_process(command, limit, joined(others, more));
}

void in_parallel(std::size_t count, int jobs, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> threads;
  const auto most = static_cast<std::size_t>(std::max(jobs, 1));
  for (std::size_t i = 0; i < std::min(count, most); ++i) {
    threads.emplace_back([&] {
      for (std::size_t item = next++; item < count; item = next++) work(item);
    });
  }
}

void tell(const Check& check, const std::string& text) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::printf("%6.1f s  %s\n", now_s() - check.start_s, text.c_str());
  std::fflush(stdout);
}

std::vector<std::string> chosen(const std::string& names, const std::vector<std::string>& all) {
  if (names.empty()) return all;
  std::vector<std::string> some;
  std::istringstream text(names);
  for (std::string name; std::getline(text, name, ',');) some.push_back(name);
  return some;
}

Json read_json(const std::string& path) {
  std::ifstream file(path);
  return Json::parse(file, nullptr, false);
}

std::vector<Json> read_json_lines(const std::string& path) {
  std::vector<Json> rows;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    Json row = Json::parse(line, nullptr, false);
    if (row.is_object()) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace mezzo::gpu
