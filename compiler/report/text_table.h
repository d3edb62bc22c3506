// Aligned columns for terminals.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace mezzo {

class TextTable {
 public:
  struct Column {
    const char* title;
    bool right = false;         // numbers stand on the right
    std::size_t narrowest = 0;  // how far it may be cut where the terminal is too narrow; 0: never
  };
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Cells must be printable (see printable()); missing ones are empty.
  void add(std::vector<std::string> row);
  bool empty() const { return rows_.empty(); }

  // A line of titles and one per row, no longer than `width` columns where the columns that may be
  // cut allow it; 0: nothing is cut. A code point counts as one column.
  std::string text(int width = 0) const;

 private:
  std::vector<std::size_t> fit(int width) const;
  void append(std::string& out, const std::vector<std::string>& row,
              const std::vector<std::size_t>& widths) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace mezzo
