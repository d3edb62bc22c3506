#include "tests/ops/contrib_cases.h"

#include <cctype>
#include <fstream>
#include <memory>
#include <sstream>

#include "compiler/support/dtype.h"

namespace mezzo::test {
namespace {

std::vector<std::string> items_of(std::string text) {
  for (char& c : text) c = c == '[' || c == ']' || c == ',' ? ' ' : c;
  std::istringstream stream(text);
  std::vector<std::string> items;
  for (std::string item; stream >> item;) items.push_back(item);
  return items;
}

bool is_real(const std::string& text) { return text.find_first_of(".e") != std::string::npos; }

Attribute::Value attribute_of(const std::string& text) {
  if (text.front() != '[') {
    if (std::isalpha(static_cast<unsigned char>(text.front())) != 0) return text;
    if (is_real(text)) return std::stof(text);
    return static_cast<std::int64_t>(std::stoll(text));
  }
  std::vector<std::int64_t> ints;
  std::vector<float> floats;
  for (const std::string& item : items_of(text)) {
    floats.push_back(std::stof(item));
    ints.push_back(static_cast<std::int64_t>(floats.back()));
  }
  if (is_real(text)) return floats;
  return ints;
}

OperandSample tensor_of(std::istringstream& line) {
  std::string dtype, dims;
  line >> dtype >> dims;
  if (dtype == "-") return absent();
  OperandSample sample;
  sample.dtype = dtype_from_name(dtype).value();
  for (const std::string& item : items_of(dims)) sample.dims.push_back(std::stoll(item));
  for (double value = 0.0; line >> value;) sample.values.push_back(value);
  return sample;
}

}  // namespace

std::vector<ContribCase> read_contrib_cases() {
  std::ifstream file(MEZZO_CONTRIB_CASES);
  std::vector<ContribCase> cases;
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string word;
    line >> word;
    if (word == "case") {
      std::string title;
      std::getline(line >> std::ws, title);
      OpSample sample;
      sample.op = title.substr(0, title.find(':'));
      sample.domain = "com.microsoft";
      sample.results = 0;
      cases.push_back({title, std::move(sample), {}});
    } else if (word == "attr") {
      std::string name, value;
      line >> name >> value;
      static std::vector<std::unique_ptr<std::string>> names;  // samples hold views
      names.push_back(std::make_unique<std::string>(name));
      cases.back().sample.attributes.emplace_back(*names.back(), attribute_of(value));
    } else if (word == "in" || word == "const") {
      cases.back().sample.operands.push_back(tensor_of(line));
      cases.back().sample.operands.back().constant = word == "const";
    } else if (word == "out") {
      cases.back().results.push_back(tensor_of(line));
      ++cases.back().sample.results;
    }
  }
  return cases;
}

}  // namespace mezzo::test
