// Programs of elementwise operations as text; element_program.h has the grammar.
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>

#include "compiler/support/text.h"
#include "kernels/element_program.h"

namespace mezzo::kernels {
namespace {

std::string source_text(const ElementSource& source) {
  switch (source.kind) {
    case ElementSource::Kind::kOperand: return "x" + std::to_string(source.index);
    case ElementSource::Kind::kResult: return "t" + std::to_string(source.index);
    default: return shortest_text(source.number);
  }
}

std::optional<double> number_of(std::string_view word) {
  float number = 0.0F;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return static_cast<double>(number);
}

class Reader {
 public:
  Reader(std::string_view text, std::size_t operands)
      : text_(text), operands_(static_cast<int>(operands)) {}

  StatusOr<ElementProgram> read() {
    ElementProgram program;
    for (;;) {
      const int number = static_cast<int>(program.statements.size());
      if (number == kMaxElementStatements) {
        return error("more than " + std::to_string(kMaxElementStatements) + " statements");
      }
      const std::string_view result = word();
      const bool last = result == "y";
      if (!last && result != "t" + std::to_string(number)) {
        return error("expected 't" + std::to_string(number) + "' or 'y', got '" +
                     printable(result) + "'");
      }
      MEZZO_RETURN_IF_ERROR(expect('='));
      MEZZO_RETURN_IF_ERROR(read_call(number, program));
      if (last) break;
      MEZZO_RETURN_IF_ERROR(expect(';'));
    }
    skip_spaces();
    if (at_ != text_.size()) return error("expected the end");
    return program;
  }

 private:
  Status read_call(int number, ElementProgram& program) {
    const std::string name(word());
    Attributes attributes;
    if (accept('[')) {
      do {
        const std::string attribute(word());
        MEZZO_RETURN_IF_ERROR(expect('='));
        const std::string_view value = word();
        if (const auto parsed = number_of(value)) {
          attributes.set(attribute, *parsed);
        } else {
          attributes.set(attribute, std::string(value));
        }
      } while (accept(','));
      MEZZO_RETURN_IF_ERROR(expect(']'));
    }
    auto statement = element_operation(name, attributes);
    if (!statement.ok()) return error(statement.status().message());
    if (!may_be_fused(statement->op)) return error("'" + printable(name) + "' is not for programs");
    MEZZO_RETURN_IF_ERROR(expect('('));
    do {
      MEZZO_ASSIGN_OR_RETURN(const ElementSource source, read_source(number));
      statement->sources.push_back(source);
    } while (accept(',') && statement->sources.size() < 4);
    MEZZO_RETURN_IF_ERROR(expect(')'));
    const auto arity = static_cast<std::size_t>(element_op_arity(statement->op));
    if (statement->sources.size() != arity) {
      return error("'" + name + "' has " + std::to_string(arity) + " operands, got " +
                   std::to_string(statement->sources.size()));
    }
    program.statements.push_back(*std::move(statement));
    return ok_status();
  }

  StatusOr<ElementSource> read_source(int statement) {
    const std::string_view name = word();
    if (name.size() > 1 && (name[0] == 'x' || name[0] == 't')) {
      const auto digits = name.substr(1);
      int index = -1;
      const auto [end, fault] =
          std::from_chars(digits.data(), digits.data() + digits.size(), index);
      const int count = name[0] == 'x' ? operands_ : statement;
      if (fault != std::errc() || end != digits.data() + digits.size() || index < 0 ||
          index >= count) {
        return error("'" + printable(name) + "' is none of " + std::to_string(count) +
                     (name[0] == 'x' ? " operands" : " results before it"));
      }
      return name[0] == 'x' ? ElementSource::operand(index) : ElementSource::result(index);
    }
    if (const auto number = number_of(name)) return ElementSource::constant(*number);
    return error("expected x, t or a number, got '" + printable(name) + "'");
  }

  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  // Up to the next punctuation mark or space; may be empty.
  std::string_view word() {
    skip_spaces();
    const std::size_t begin = at_;
    while (at_ < text_.size() && std::string_view(" =;,()[]").find(text_[at_]) == std::string::npos)
      ++at_;
    return text_.substr(begin, at_ - begin);
  }

  bool accept(char mark) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != mark) return false;
    ++at_;
    return true;
  }

  Status expect(char mark) {
    if (accept(mark)) return ok_status();
    return error(std::string("expected '") + mark + "'");
  }

  Status error(const std::string& what) const {
    return invalid_argument("FusedElementwise, attribute 'program', character " +
                            std::to_string(at_) + ": " + what);
  }

  std::string_view text_;
  int operands_;
  std::size_t at_ = 0;
};

}  // namespace

StatusOr<ElementProgram> parse_element_program(std::string_view text, std::size_t operands) {
  return Reader(text, operands).read();
}

std::string format_element_program(const ElementProgram& program) {
  std::string text;
  for (std::size_t i = 0; i < program.statements.size(); ++i) {
    const ElementStatement& statement = program.statements[i];
    const bool last = i + 1 == program.statements.size();
    text += last ? "y = " : "t" + std::to_string(i) + " = ";
    const ElementName name = element_name(statement);
    text += name.name;
    std::string_view separator = "[";
    for (const auto& [attribute, value] : name.attributes) {
      text += std::string(separator) + std::string(attribute) + "=" + value;
      separator = ",";
    }
    if (!name.attributes.empty()) text += "]";
    separator = "(";
    for (const ElementSource& source : statement.sources) {
      text += std::string(separator) + source_text(source);
      separator = ", ";
    }
    text += last ? ")" : "); ";
  }
  return text;
}

}  // namespace mezzo::kernels
