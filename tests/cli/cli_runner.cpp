#include "cli_runner.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <thread>

#include "runtime/io/npz.h"

namespace mezzo::test {
namespace {

namespace fs = std::filesystem;

// In the child: never returns.
[[noreturn]] void become(const std::vector<std::string>& arguments, const std::string& folder,
                         const TempDir& captured) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const int in = ::open("/dev/null", O_RDONLY);
  const int out = ::open(captured.file("out").c_str(), O_WRONLY | O_CREAT, 0600);
  const int err = ::open(captured.file("err").c_str(), O_WRONLY | O_CREAT, 0600);
  if (in < 0 || out < 0 || err < 0 || ::chdir(folder.c_str()) != 0) ::_exit(125);
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  ::execvp(argv[0], argv.data());
  ::_exit(126);
}

int wait_for(pid_t child, int seconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string shell_form(const std::vector<std::string>& arguments) {
  std::string text = "mezzo";
  for (const std::string& argument : arguments) text += " '" + argument + "'";
  return text;
}

}  // namespace

CommandResult run_command(const std::vector<std::string>& arguments, const std::string& folder,
                          int seconds) {
  const TempDir captured;
  const pid_t child = ::fork();
  if (child < 0) return {};
  if (child == 0) become(arguments, folder, captured);
  CommandResult result;
  result.status = wait_for(child, seconds);
  result.out = read_text(captured.file("out"));
  result.err = read_text(captured.file("err"));
  return result;
}

CliTest::Data::Data() {
  for (int i = 0; i < 64; ++i) x.push_back(static_cast<float>((i * 37) % 19) / 10.0F - 0.9F);
  for (int i = 0; i < 16; ++i) labels.push_back(i % 3);
}

CliTest::CliTest() {
  write_model("classifier.onnxtxt",
              R"((float[N,4] x, int64[N] labels) => (float[N,3] scores, float loss)
<float[4,3] w = {0.1, -0.2, 0.3, 0.2, 0.1, -0.1, -0.3, 0.2, 0.1, 0.3, -0.1, 0.2}, float[3] b = {0.0, 0.1, -0.1}>
{
  product = MatMul(x, w)
  scores = Add(product, b)
  loss = SoftmaxCrossEntropyLoss<reduction = "mean">(scores, labels)
})");
  write_data("data.npz", Data());
}

CommandResult CliTest::mezzo(const std::vector<std::string>& arguments) const {
  const char* chosen = std::getenv("MEZZO_PROGRAM");
  std::vector<std::string> command = {chosen != nullptr ? chosen : MEZZO_PROGRAM};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_command(command, folder_.path());
}

void CliTest::expect_refusal(const std::vector<std::string>& arguments, int status,
                             const std::vector<std::string>& needles) const {
  SCOPED_TRACE(shell_form(arguments));
  const auto before = contents();
  const CommandResult result = mezzo(arguments);
  EXPECT_EQ(result.status, status) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(result.err.starts_with("error: ")) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_LT(result.err.size(), 600U) << result.err;
  for (const std::string& needle : needles) {
    EXPECT_NE(result.err.find(needle), std::string::npos)
        << "expected \"" << needle << "\" in: " << result.err;
  }
  const auto after = contents();
  for (const auto& [path, content] : after) {
    const auto old = before.find(path);
    EXPECT_NE(old, before.end()) << path << " was left behind";
    EXPECT_TRUE(old == before.end() || old->second == content) << path << " was changed";
  }
  EXPECT_EQ(after.size(), before.size()) << "files vanished";
}

void CliTest::write_model(std::string_view name, std::string_view body, int opset) const {
  write_text(file(name), "<ir_version: 8, opset_import: [\"\" : " + std::to_string(opset) +
                             "]>\nnet " + std::string(body) + "\n");
}

void CliTest::write_floats(std::string_view npz, std::string_view array,
                           const std::vector<std::int64_t>& shape,
                           const std::vector<float>& values) const {
  auto writer = runtime::NpzWriter::create(file(npz));
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  ASSERT_TRUE(writer->add(array, DType::kFloat32, shape, std::as_bytes(std::span(values))).ok());
  ASSERT_TRUE(writer->commit().ok());
}

void CliTest::write_data(std::string_view name, const Data& data) const {
  auto writer = runtime::NpzWriter::create(file(name));
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  ASSERT_TRUE(
      writer->add(data.x_name, DType::kFloat32, data.x_shape, std::as_bytes(std::span(data.x)))
          .ok());
  ASSERT_TRUE(writer
                  ->add(data.labels_name, DType::kInt64, data.label_shape,
                        std::as_bytes(std::span(data.labels)))
                  .ok());
  ASSERT_TRUE(writer->commit().ok());
}

std::map<std::string, std::string> CliTest::contents() const {
  std::map<std::string, std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(
           folder_.path(), fs::directory_options::skip_permission_denied)) {
    const std::string path = fs::relative(entry.path(), folder_.path()).string();
    found[path] = entry.is_directory() ? "/" : read_text(entry.path().string());
  }
  return found;
}

}  // namespace mezzo::test
