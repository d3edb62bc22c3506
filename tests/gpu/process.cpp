#include "tests/gpu/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

namespace mezzo::gpu {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

[[noreturn]] void become(const std::vector<std::string>& command, int output) {
  setpgid(0, 0);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  if (const int null = open("/dev/null", O_RDONLY); null >= 0) dup2(null, STDIN_FILENO);
  std::vector<char*> arguments;
  for (const std::string& part : command) arguments.push_back(const_cast<char*>(part.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

// What the pipe holds, until its end or the limit; true at its end.
bool read_until(int pipe, double limit_s, Clock::time_point start, std::string& output) {
  for (;;) {
    const double left = limit_s - seconds_since(start);
    if (left <= 0) return false;
    pollfd ready{pipe, POLLIN, 0};
    if (poll(&ready, 1, static_cast<int>(left * 1000) + 1) <= 0) continue;
    char buffer[4096];
    const ssize_t got = read(pipe, buffer, sizeof buffer);
    if (got <= 0) return true;
    output.append(buffer, static_cast<std::size_t>(got));
    if (output.size() > 2 * kMostOutput) output.erase(0, output.size() - kMostOutput);
  }
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& command, double limit_s) {
  ProcessResult result;
  int ends[2];
  if (pipe(ends) != 0) return result;
  const Clock::time_point start = Clock::now();
  const pid_t child = fork();
  if (child == 0) become(command, ends[1]);
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return result;
  }
  const bool ended = read_until(ends[0], limit_s, start, result.output);
  if (!ended) kill(-child, SIGKILL);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  result.seconds = seconds_since(start);
  result.status = !ended ? 124 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (result.output.size() > kMostOutput)
    result.output.erase(0, result.output.size() - kMostOutput);
  return result;
}

}  // namespace mezzo::gpu
