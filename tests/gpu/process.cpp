#include "tests/gpu/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

namespace mezzo::gpu {
namespace {

constexpr double kPatience = 10;  // for what was killed; a driver may hold a process for long
constexpr int kLookMs = 50;
constexpr std::size_t kToldOutput = 6000;

[[noreturn]] void become(char* const* command, char* const* environment, int output) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  if (const int null = open("/dev/null", O_RDONLY); null >= 0) dup2(null, STDIN_FILENO);
  // Whatever started this program may have left signals ignored or blocked: an alarm must ring.
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGALRM, SIGPIPE, SIGTERM, SIGINT}) signal(number, SIG_DFL);
  execvpe(command[0], command, environment);
  dprintf(STDERR_FILENO, "%s: %s\n", command[0], strerror(errno));
  _exit(127);
}

std::vector<std::string> merged(const Environment& changes) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (changes.count(text.substr(0, text.find('='))) == 0) all.push_back(text);
  }
  for (const auto& [name, value] : changes) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

// A program whose output comes through a pipe.
class Running {
 public:
  Running(std::vector<std::string> command, const Environment& environment) {
    std::vector<std::string> variables = merged(environment);
    const std::vector<char*> arguments = pointers(command), all = pointers(variables);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    child_ = fork();
    if (child_ == 0) become(arguments.data(), all.data(), ends[1]);
    if (child_ > 0) setpgid(child_, child_);  // whoever comes first
    close(ends[1]);
    output_ = ends[0];
    fcntl(output_, F_SETFL, O_NONBLOCK);  // of our end alone
  }
  ~Running() {
    if (output_ >= 0) close(output_);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  bool started() const { return child_ > 0; }
  // Reads until the program has ended or the time has come; true if it has ended.
  bool read_until(double end_s, std::string& output) {
    while (true) {
      const bool ended = has_ended();
      read_all(output);
      if (ended) return true;
      if (now_s() >= end_s) return false;
      pollfd ready{output_, POLLIN, 0};
      poll(&ready, 1, at_end_ ? 0 : kLookMs);
      if (at_end_) usleep(kLookMs * 1000);
    }
  }
  void kill_group() const { ::kill(-child_, SIGKILL); }
  std::optional<int> status() const { return status_; }

 private:
  bool has_ended() {
    int status = 0;
    if (!status_ && waitpid(child_, &status, WNOHANG) == child_) status_ = status;
    return status_.has_value();
  }
  void read_all(std::string& output) {
    char buffer[1 << 14];
    ssize_t got = 0;
    while ((got = read(output_, buffer, sizeof buffer)) > 0) {
      output.append(buffer, static_cast<std::size_t>(got));
      if (output.size() > 2 * kMostOutput) output.erase(0, output.size() - kMostOutput);
    }
    at_end_ = got == 0;
  }

  pid_t child_ = -1;
  int output_ = -1;
  bool at_end_ = false;
  std::optional<int> status_;
};

std::string how_it_ended(const ProcessResult& run) {
  if (run.cut_off) return "stopped at the limit";
  if (run.status == 127) return "not started, or exit 127";
  if (run.status < 0) return "could not be run";
  if (run.status <= 128) return "exit " + std::to_string(run.status);
  const int signal = run.status - 128;
  return "signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
}

}  // namespace

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

ProcessResult run_process(const std::vector<std::string>& command, double limit_s,
                          const Environment& environment) {
  ProcessResult result;
  for (const std::string& part : command)
    result.command += (result.command.empty() ? "" : " ") + part;
  if (limit_s <= 0) {
    result.cut_off = true;
    return result;
  }
  const double start = now_s();
  Running running(command, environment);
  if (!running.started()) return result;
  result.cut_off = !running.read_until(start + limit_s, result.output);
  running.kill_group();
  if (result.cut_off) running.read_until(now_s() + kPatience, result.output);
  result.seconds = now_s() - start;
  if (const auto status = running.status()) {
    result.status = WIFEXITED(*status) ? WEXITSTATUS(*status) : 128 + WTERMSIG(*status);
  }
  if (result.output.size() > kMostOutput)
    result.output.erase(0, result.output.size() - kMostOutput);
  return result;
}

nlohmann::json describe(const ProcessResult& run) {
  const std::size_t told = std::min(run.output.size(), kToldOutput);
  return {{"command", run.command},
          {"ended", how_it_ended(run)},
          {"seconds", run.seconds},
          {"end_of_output", run.output.substr(run.output.size() - told)}};
}

}  // namespace mezzo::gpu
