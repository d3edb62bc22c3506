#include "runtime/train/metrics.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "compiler/support/atomic_file.h"
#include "compiler/support/json_util.h"
#include "compiler/support/mapped_file.h"
#include "compiler/support/text.h"

namespace mezzo::runtime {
namespace {

template <typename Number>
std::string json_number_text(Number value) {
  return std::isfinite(value) ? format_number(value) : "null";
}

Status cannot_write(const std::string& path, int error) {
  return invalid_argument(printable(path) + ": cannot be written: " + std::strerror(error));
}

// "12.3k": samples per second and the like, three digits.
std::string short_number(double value) {
  constexpr std::array<const char*, 4> kUnits = {"", "k", "M", "G"};
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  std::array<char, 32> text{};
  const int digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  std::snprintf(text.data(), text.size(), "%.*f%s", digits, value, kUnits[unit]);
  return text.data();
}

std::string format_loss(double loss) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", loss);
  return text.data();
}

// The length of the leading part of a metrics file that holds steps up to `last_step`.
StatusOr<std::size_t> kept_bytes(std::string_view text, std::string_view where,
                                 std::int64_t last_step) {
  std::size_t kept = 0;
  for (std::size_t number = 1; kept < text.size(); ++number) {
    const std::size_t end = text.find('\n', kept);
    if (end == std::string_view::npos) return kept;  // cut off by a crash
    const std::string place = std::string(where) + ", line " + std::to_string(number);
    MEZZO_ASSIGN_OR_RETURN(const auto row, parse_json(text.substr(kept, end - kept), place));
    auto step = json_int(row, "step");
    if (!step.ok()) {
      return invalid_argument(place + ": " + step.status().message() +
                              ". Hint: the file is not the metrics of a run; give another --out");
    }
    if (*step > last_step) return kept;
    kept = end + 1;
  }
  return kept;
}

// Where some optimizers skipped and others did not.
std::string skipped_optimizers(const StepMetrics& m) {
  if (m.skipped || m.skipped_optimizers == 0) return {};
  std::string numbers;
  for (int i = 0; i < 64; ++i) {
    if ((m.skipped_optimizers >> i & 1U) != 0)
      numbers += (numbers.empty() ? "" : ",") + std::to_string(i);
  }
  return ",\"skipped_optimizers\":[" + numbers + "]";
}

}  // namespace

std::string metrics_line(const StepMetrics& m) {
  std::array<char, 32> step_ms{};
  std::snprintf(step_ms.data(), step_ms.size(), "%.3f", std::isfinite(m.step_ms) ? m.step_ms : 0.0);
  return "{\"step\":" + std::to_string(m.step) + ",\"loss\":" + json_number_text(m.loss) +
         ",\"grad_norm\":" + (m.grad_norm ? json_number_text(*m.grad_norm) : "null") +
         ",\"lr\":" + json_number_text(m.lr) + ",\"loss_scale\":" + json_number_text(m.loss_scale) +
         ",\"skipped\":" + (m.skipped ? "true" : "false") + skipped_optimizers(m) +
         ",\"step_ms\":" + step_ms.data() + "}";
}

StatusOr<MetricsWriter> MetricsWriter::open(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | flags, 0666);
  if (fd < 0) return cannot_write(path, errno);
  return MetricsWriter(path, fd);
}

StatusOr<MetricsWriter> MetricsWriter::create(const std::string& path) {
  return open(path, O_TRUNC);
}

StatusOr<MetricsWriter> MetricsWriter::resume(const std::string& path, std::int64_t last_step) {
  struct stat facts = {};
  if (::stat(path.c_str(), &facts) != 0 && errno == ENOENT) return create(path);
  {
    MEZZO_ASSIGN_OR_RETURN(const auto file, MappedFile::open(path));
    const auto bytes = file->bytes();
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    MEZZO_ASSIGN_OR_RETURN(const std::size_t kept, kept_bytes(text, printable(path), last_step));
    MEZZO_RETURN_IF_ERROR(write_file(path, text.substr(0, kept)));
  }
  return open(path, 0);
}

MetricsWriter::~MetricsWriter() {
  if (fd_ >= 0) ::close(fd_);
}

MetricsWriter::MetricsWriter(MetricsWriter&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

MetricsWriter& MetricsWriter::operator=(MetricsWriter&& other) noexcept {
  if (this == &other) return *this;
  if (fd_ >= 0) ::close(fd_);
  path_ = std::move(other.path_);
  fd_ = std::exchange(other.fd_, -1);
  return *this;
}

Status MetricsWriter::write(const StepMetrics& metrics) {
  const std::string line = metrics_line(metrics) + "\n";
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = ::write(fd_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return cannot_write(path_, errno);
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  return ok_status();
}

ProgressReporter ProgressReporter::for_stderr(std::int64_t total_steps, bool show_scale) {
  ProgressOptions options;
  options.total_steps = total_steps;
  options.show_scale = show_scale;
  const char* term = std::getenv("TERM");
  options.terminal =
      ::isatty(STDERR_FILENO) == 1 && (term == nullptr || std::strcmp(term, "dumb") != 0);
  struct winsize size = {};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    options.columns = size.ws_col;
  return ProgressReporter(options, [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
  });
}

// Since the last time shown, so that the number follows changes of speed.
double ProgressReporter::samples_per_s(const Progress& progress) const {
  const double seconds = progress.elapsed_s - shown_.elapsed_s;
  return seconds > 0 ? static_cast<double>(progress.samples - shown_.samples) / seconds : 0.0;
}

std::string ProgressReporter::line(const Progress& progress) const {
  std::string text = "loss " + format_loss(progress.loss);
  if (options_.show_scale)
    text += "  scale " + format_number(static_cast<float>(progress.loss_scale));
  text += "  " + short_number(samples_per_s(progress)) + " samples/s";
  if (progress.skipped_steps > 0) text += "  skipped " + std::to_string(progress.skipped_steps);
  return text;
}

void ProgressReporter::update(const Progress& progress) {
  const std::int64_t total = std::max<std::int64_t>(options_.total_steps, 1);
  const bool edge = progress.step <= 1 || progress.step >= total;
  const std::string count = "step " + std::to_string(progress.step) + "/" + std::to_string(total);
  if (!options_.terminal) {
    // A line where a tenth of the run is completed.
    const bool tenth = progress.step * 10 / total != (progress.step - 1) * 10 / total;
    if (!edge && !tenth) return;
    sink_(count + "  " + line(progress) + "\n");
    shown_ = progress;
    return;
  }
  if (!edge && progress.elapsed_s - shown_.elapsed_s < options_.redraw_s) return;
  const std::string right = count + "  " + line(progress);
  const int room = std::clamp(options_.columns - static_cast<int>(right.size()) - 5, 0, 40);
  std::string text = "\r";
  if (room >= 8) {
    const auto done = static_cast<int>(std::min(progress.step, total) * room / total);
    text += "[" + std::string(static_cast<std::size_t>(done), '=') +
            std::string(static_cast<std::size_t>(room - done), ' ') + "] ";
  }
  text += right;
  // Cut rather than wrapped: a wrapped line could not be redrawn.
  const auto most = static_cast<std::size_t>(std::max(options_.columns, 2));
  if (text.size() > most) text.resize(most);
  sink_(text + "\x1b[K");
  line_open_ = true;
  shown_ = progress;
}

void ProgressReporter::finish() {
  if (line_open_) sink_("\n");
  line_open_ = false;
}

}  // namespace mezzo::runtime
