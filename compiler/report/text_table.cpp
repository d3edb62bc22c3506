#include "compiler/report/text_table.h"

#include <algorithm>
#include <numeric>

namespace mezzo {
namespace {

constexpr std::size_t kGap = 2;

bool starts_code_point(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

// Columns a UTF-8 text takes, a code point counted as one.
std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), starts_code_point));
}

// At most `width` columns, "..." at the end where something was cut.
std::string cut(const std::string& text, std::size_t width) {
  if (columns(text) <= width) return text;
  const std::size_t keep = width < 4 ? width : width - 3;
  std::size_t end = 0, seen = 0;
  while (end < text.size()) {
    if (starts_code_point(text[end]) && seen++ == keep) break;
    ++end;
  }
  return text.substr(0, end) + (width < 4 ? "" : "...");
}

}  // namespace

void TextTable::add(std::vector<std::string> row) {
  row.resize(columns_.size());
  rows_.push_back(std::move(row));
}

std::string TextTable::text(int width) const {
  const std::vector<std::size_t> widths = fit(width);
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.emplace_back(column.title);
  std::string out;
  append(out, titles, widths);
  for (const auto& row : rows_) append(out, row, widths);
  return out;
}

std::vector<std::size_t> TextTable::fit(int width) const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t widest = columns(columns_[i].title);
    for (const auto& row : rows_) widest = std::max(widest, columns(row[i]));
    widths.push_back(widest);
  }
  if (width <= 0) return widths;
  std::size_t total = std::accumulate(widths.begin(), widths.end(), kGap * (widths.size() - 1));
  // The widest column that may still be cut gives way, one column at a time.
  while (total > static_cast<std::size_t>(width)) {
    std::size_t victim = columns_.size();
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const bool can = columns_[i].narrowest > 0 && widths[i] > columns_[i].narrowest;
      if (can && (victim == columns_.size() || widths[i] > widths[victim])) victim = i;
    }
    if (victim == columns_.size()) break;
    --widths[victim];
    --total;
  }
  return widths;
}

void TextTable::append(std::string& out, const std::vector<std::string>& row,
                       const std::vector<std::size_t>& widths) const {
  std::string line;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::string cell = cut(row[i], widths[i]);
    const std::string padding(widths[i] - std::min(widths[i], columns(cell)), ' ');
    line += columns_[i].right ? padding + cell : cell + padding;
    if (i + 1 < row.size()) line.append(kGap, ' ');
  }
  line.erase(line.find_last_not_of(' ') + 1);
  out += line + "\n";
}

}  // namespace mezzo
