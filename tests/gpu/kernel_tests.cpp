#include "tests/gpu/kernel_tests.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>

namespace mezzo::gpu {
namespace {

using Names = std::vector<std::string>;

// A process costs a second or more on a GPU; a crash costs the rest of a share its time.
constexpr std::size_t kSharesPerJob = 3;
// Seconds for one test. It may hang, or cuDNN may be slow to compile: that is for whoever reads it.
constexpr int kOneTest = 90;

// "Suite." and, below it, "  Name  # of a parameter".
Names parse_list(const std::string& text) {
  Names names;
  std::string suite;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line = line.substr(0, line.find('#'));
    while (!line.empty() && line.back() == ' ') line.pop_back();
    if (line.starts_with("  ") && !suite.empty()) {
      names.push_back(suite + line.substr(2));
    } else if (line.ends_with('.') && line.find(' ') == std::string::npos) {
      suite = line;
    }
  }
  return names;
}

class KernelTests {
 public:
  KernelTests(const Check& check, double end_s) : check_(check), end_s_(end_s) {}

  Json run() {
    const double start = now_s();
    auto command = check_.program("gpu_kernels_test");
    command.insert(command.end(), {"--gtest_list_tests", "--gtest_filter=" + check_.kernels});
    const ProcessResult listed = check_.run(command, std::min(60.0, end_s_ - now_s()));
    const Names all = parse_list(listed.output);
    if (!listed.ok() || all.empty()) {
      return {{"verdict", listed.cut_off ? kCutOff : kFailed}, {"list", describe(listed)}};
    }
    share(all);
    in_parallel(shares_.size(), check_.jobs, [&](std::size_t i) { run_share(i); });
    Json result = report(all);
    result["seconds"] = now_s() - start;
    return result;
  }

 private:
  // Neighbours are of a kind and take alike: they go to different shares.
  void share(const Names& all) {
    const auto jobs = static_cast<std::size_t>(std::max(check_.jobs, 1));
    shares_.resize(std::min(all.size(), jobs == 1 ? std::size_t{1} : jobs * kSharesPerJob));
    for (std::size_t i = 0; i < all.size(); ++i) shares_[i % shares_.size()].push_back(all[i]);
  }

  void run_share(std::size_t index) {
    Names left = shares_[index];
    for (int attempt = 0; !left.empty() && now_s() < end_s_; ++attempt) {
      const std::string log =
          check_.work + "/kernels_" + std::to_string(index) + "_" + std::to_string(attempt);
      const ProcessResult run = run_tests(left, log);
      const std::size_t before = left.size();
      const bool explained = take(read_json_lines(log), run, left);
      if (now_s() >= end_s_) return;
      if (!explained) {
        const std::lock_guard lock(mutex_);
        lost_.push_back(describe(run));
      }
      if (left.size() == before) return;  // not even one test began
    }
  }

  ProcessResult run_tests(const Names& tests, const std::string& log) const {
    const std::string flags = log + ".flags";
    std::ofstream file(flags);
    file << "--gtest_filter=";
    for (const std::string& test : tests) file << test << ":";
    file << "\n";
    file.close();
    auto command = check_.program("gpu_kernels_test");
    command.push_back("--gtest_flagfile=" + flags);
    return check_.run(
        command, end_s_ - now_s(),
        {{"MEZZO_GPU_TEST_LOG", log}, {"MEZZO_GPU_TEST_SECONDS", std::to_string(kOneTest)}});
  }

  // What the log says is over; of a test that began and has not ended, how its process ended.
  // False if the process failed and no test says why.
  bool take(const std::vector<Json>& log, const ProcessResult& run, Names& left) {
    const std::lock_guard lock(mutex_);
    std::string begun;
    bool failed = false;
    for (const Json& row : log) {
      if (row.contains("rows")) rows_ = row["rows"].get<Names>();
      if (row.contains("begin")) begun = row["begin"];
      if (!row.contains("test")) continue;
      const std::string name = row["test"];
      std::erase(left, name);
      begun.clear();
      done_.insert(name);
      for (const Json& tested : row["rows_run"]) rows_run_.insert(tested.get<std::size_t>());
      if (row["ok"].get<bool>()) {
        skipped_ += row["skipped"].get<bool>() ? 1 : 0;
      } else {
        failed_.push_back(row);
        failed = true;
      }
    }
    if (begun.empty()) return run.ok() || failed;
    if (run.cut_off && now_s() >= end_s_) return true;
    std::erase(left, begun);
    done_.insert(begun);
    const bool too_long = run.status == 128 + SIGALRM;
    (too_long ? too_long_ : crashed_).push_back({{"test", begun}, {"why", describe(run)}});
    tell(check_, "kernel test " + begun + " ended its process");
    return true;
  }

  Json report(const Names& all) const {
    Names not_run, rows_not_run;
    for (const std::string& name : all) {
      if (done_.count(name) == 0) not_run.push_back(name);
    }
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (rows_run_.count(i) == 0) rows_not_run.push_back(rows_[i]);
    }
    const bool all_run = not_run.empty() && too_long_.empty();
    const bool whole = check_.kernels == "*" && all_run;
    const bool bad =
        !failed_.empty() || !crashed_.empty() || !lost_.empty() || (whole && !rows_not_run.empty());
    Json result = {
        {"verdict", bad       ? kFailed
                    : all_run ? kPassed
                              : kCutOff},
        {"filter", check_.kernels},
        {"tests", all.size()},
        {"passed", done_.size() - failed_.size() - crashed_.size() - too_long_.size() - skipped_},
        {"skipped", skipped_},
        {"failed", failed_},
        {"crashed", crashed_},
        {"too_long", too_long_},
        {"not_run", not_run},
        {"rows", rows_.size()},
        {"rows_run", rows_run_.size()}};
    if (whole) result["rows_not_run"] = rows_not_run;
    if (!lost_.empty()) result["processes"] = lost_;
    return result;
  }

  const Check& check_;
  double end_s_;
  std::vector<Names> shares_;

  std::mutex mutex_;  // guards what follows
  std::set<std::string> done_;
  std::size_t skipped_ = 0;
  Json failed_ = Json::array(), crashed_ = Json::array(), too_long_ = Json::array(),
       lost_ = Json::array();
  Names rows_;  // all rows there are
  std::set<std::size_t> rows_run_;
};

}  // namespace

Json run_kernel_tests(const Check& check, double end_s) { return KernelTests(check, end_s).run(); }

}  // namespace mezzo::gpu
