#include "kernels/cuda/blaslt_cache.h"

#include <cctype>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "compiler/support/atomic_file.h"

namespace mezzo::kernels::cuda {
namespace {

constexpr std::string_view kMagic = "mezzo cuBLASLt choices 1\n";
constexpr std::string_view kChecksum = "checksum ";
constexpr std::size_t kMostBytes = 1 << 24;
constexpr std::size_t kMostKeyBytes = 512;
constexpr std::size_t kSavedAtOnce = 64;
constexpr int kHexDigits = 16;

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3;
  }
  return hash;
}

std::string hex(std::uint64_t number) {
  std::string text(kHexDigits, '0');
  for (int i = kHexDigits; i-- > 0; number >>= 4) {
    text[static_cast<std::size_t>(i)] = "0123456789abcdef"[number & 15];
  }
  return text;
}

std::optional<std::uint64_t> number(std::string_view text, int base) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Cuts what is before `end` off the front of `text`; nothing if `end` does not occur.
std::optional<std::string_view> take_until(std::string_view& text, char end) {
  const std::size_t at = text.find(end);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at + 1);
  return taken;
}

Status bad(std::string_view what) { return invalid_argument("kept choices: " + std::string(what)); }

Status read_entry(std::string_view line, BlasLtChoices& choices) {
  const auto key = take_until(line, ' ');
  const auto workspace = take_until(line, ' ');
  const auto timed = take_until(line, ' ');
  if (!key || !workspace || !timed || key->empty() || key->size() > kMostKeyBytes)
    return bad("an odd entry");
  BlasLtChoice choice;
  const auto bytes = number(*workspace, 10), candidates = number(*timed, 10);
  if (!bytes || !candidates || line.size() != choice.algorithm.size() * kHexDigits)
    return bad("an odd entry");
  choice.workspace_bytes = *bytes;
  choice.timed = *candidates;
  for (std::uint64_t& word : choice.algorithm) {
    const auto value = number(line.substr(0, kHexDigits), 16);
    if (!value) return bad("an odd algorithm");
    word = *value;
    line.remove_prefix(kHexDigits);
  }
  if (choices.size() >= kMostChoices) return bad("too many entries");
  if (!choices.emplace(*key, choice).second) return bad("an entry twice");
  return ok_status();
}

// "cublaslt-nvidia-h200-9.0-132-130100.txt"
std::string file_name(std::string_view device) {
  std::string name = "cublaslt-";
  for (const char c : device) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.';
    if (plain) name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (!plain && name.back() != '-') name += '-';
  }
  return name + ".txt";
}

StatusOr<BlasLtChoices> read_file(const std::string& path, std::string_view device) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  if (error || !std::filesystem::is_regular_file(path, error)) return bad("no file");
  if (bytes > kMostBytes) return bad("too large");
  std::ifstream file(path, std::ios::binary);
  std::string text(static_cast<std::size_t>(bytes), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (static_cast<std::size_t>(file.gcount()) != text.size()) return bad("cannot be read");
  return parse_choices(text, device);
}

}  // namespace

std::string format_choices(std::string_view device, const BlasLtChoices& choices) {
  std::string text = std::string(kMagic) + std::string(device) + "\n";
  for (const auto& [key, choice] : choices) {
    text += key + " " + std::to_string(choice.workspace_bytes) + " " +
            std::to_string(choice.timed) + " ";
    for (const std::uint64_t word : choice.algorithm) text += hex(word);
    text += "\n";
  }
  return text + std::string(kChecksum) + hex(fnv1a(text)) + "\n";
}

StatusOr<BlasLtChoices> parse_choices(std::string_view text, std::string_view device) {
  const std::size_t tail = kChecksum.size() + kHexDigits + 1;
  if (text.size() > kMostBytes) return bad("too large");
  if (text.size() < kMagic.size() + tail || !text.starts_with(kMagic))
    return bad("not such a file");
  std::string_view end = text.substr(text.size() - tail);
  std::string_view rest = text.substr(0, text.size() - tail);
  if (!end.starts_with(kChecksum) || end.back() != '\n') return bad("cut short");
  const auto sum = number(end.substr(kChecksum.size(), kHexDigits), 16);
  if (!sum || *sum != fnv1a(rest)) return bad("altered");
  rest.remove_prefix(kMagic.size());
  const auto made_for = take_until(rest, '\n');
  if (!made_for || *made_for != device) return bad("made for another device or library");
  BlasLtChoices choices;
  while (!rest.empty()) {
    const auto line = take_until(rest, '\n');
    if (!line) return bad("a line without end");
    MEZZO_RETURN_IF_ERROR(read_entry(*line, choices));
  }
  return choices;
}

BlasLtCache::BlasLtCache(std::string folder, std::string device) : device_(std::move(device)) {
  for (char& c : device_) {
    if (c == '\n') c = ' ';
  }
  if (folder.empty()) return;
  path_ = (std::filesystem::path(std::move(folder)) / file_name(device_)).string();
  auto kept = read_file(path_, device_);
  if (kept.ok()) choices_ = std::move(kept).value();
}

// What cannot be kept is searched for again.
BlasLtCache::~BlasLtCache() { static_cast<void>(save()); }

const BlasLtChoice* BlasLtCache::find(std::string_view key) const {
  const auto found = choices_.find(key);
  return found == choices_.end() ? nullptr : &found->second;
}

void BlasLtCache::add(const std::string& key, const BlasLtChoice& choice) {
  if (choices_.size() >= kMostChoices || key.size() > kMostKeyBytes) return;
  choices_.insert_or_assign(key, choice);
  // A run that is killed later keeps what it has found.
  if (++unsaved_ % kSavedAtOnce == 0) static_cast<void>(save());
}

void BlasLtCache::drop(std::string_view key) {
  const auto found = choices_.find(key);
  if (found == choices_.end()) return;
  choices_.erase(found);
  ++unsaved_;
}

Status BlasLtCache::save() {
  if (unsaved_ == 0 || path_.empty()) return ok_status();
  unsaved_ = 0;
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), error);
  // Another process may have added some meanwhile; where both have one, ours is in use here.
  if (auto kept = read_file(path_, device_); kept.ok()) {
    for (const auto& [key, choice] : *kept) {
      if (choices_.size() < kMostChoices) choices_.emplace(key, choice);
    }
  }
  return write_file(path_, format_choices(device_, choices_));
}

}  // namespace mezzo::kernels::cuda
