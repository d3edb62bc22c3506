// Einsum as transposes, sums and products: operands lose what no other term needs by ReduceSum,
// repeated labels by taking the diagonal, and then two terms at a time become one, from left to
// right, by a batched MatMul (where labels are summed over) or by Mul (where none is).
//
// Intermediate results have the operands' dtype: an equation of three or more low-precision
// operands, or one that sums an operand alone, rounds in between.
#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "compiler/ops/constants.h"
#include "compiler/ops/decompose_rules.h"

namespace mezzo {
namespace {

using Ints = std::vector<std::int64_t>;
// A letter, or for the dims of an ellipsis 256 + their place counted from the right.
using Label = int;
using Labels = std::vector<Label>;
constexpr Label kEllipsis = 256;

bool contains(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// A term as written: its letters, and where its ellipsis stands.
struct Written {
  Labels letters;
  std::optional<std::size_t> ellipsis;
};

StatusOr<Written> parse_term(const Node& node, std::string_view text) {
  Written term;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 3) == "..." && !term.ellipsis) {
      term.ellipsis = term.letters.size();
      i += 2;
    } else if (is_letter(text[i])) {
      term.letters.push_back(static_cast<unsigned char>(text[i]));
    } else {
      return invalid_argument(describe(node) + ": attribute equation: '" + std::string(text) +
                              "' is no list of letters with at most one '...'");
    }
  }
  return term;
}

// The term's labels with its ellipsis spelled out as `dims` dims.
Labels spell_out(const Written& term, std::size_t dims) {
  Labels labels = term.letters;
  if (term.ellipsis) {
    for (std::size_t i = 0; i < dims; ++i) {
      labels.insert(labels.begin() + static_cast<std::ptrdiff_t>(*term.ellipsis + i),
                    kEllipsis + static_cast<Label>(dims - 1 - i));
    }
  }
  return labels;
}

struct Equation {
  std::vector<Labels> terms;
  Labels result;
};

// Letters that occur once, in alphabetical order, after the dims of the ellipsis.
Labels implicit_result(const std::vector<Labels>& terms, std::size_t ellipsis_dims) {
  std::map<Label, int> counts;
  for (const Labels& term : terms) {
    for (const Label label : term) ++counts[label];
  }
  Labels result;
  for (std::size_t i = ellipsis_dims; i > 0; --i) {
    result.push_back(kEllipsis + static_cast<Label>(i - 1));
  }
  for (const auto& [label, count] : counts) {
    if (label < kEllipsis && count == 1) result.push_back(label);
  }
  return result;
}

StatusOr<Equation> read_equation(const Node& node, const std::vector<Ints>& dims) {
  std::string text = node.string_attribute("equation", "");
  std::erase(text, ' ');
  const std::size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  std::vector<Written> written;
  for (std::size_t start = 0; start <= left.size();) {
    const std::size_t comma = std::min(left.find(',', start), left.size());
    MEZZO_ASSIGN_OR_RETURN(Written term,
                           parse_term(node, std::string_view(left).substr(start, comma - start)));
    written.push_back(std::move(term));
    start = comma + 1;
  }
  if (written.size() != dims.size()) {
    return invalid_argument(describe(node) + ": attribute equation: '" + text + "' has " +
                            std::to_string(written.size()) + " terms for " +
                            std::to_string(dims.size()) + " operands");
  }
  Equation equation;
  std::size_t ellipsis_dims = 0;
  for (std::size_t i = 0; i < written.size(); ++i) {
    const std::size_t letters = written[i].letters.size();
    const bool fits = written[i].ellipsis ? dims[i].size() >= letters : dims[i].size() == letters;
    if (!fits) {
      return invalid_argument(describe(node) + ", operand " + std::to_string(i) +
                              ": the equation '" + text + "' names " + std::to_string(letters) +
                              " dimensions, got rank " + std::to_string(dims[i].size()));
    }
    equation.terms.push_back(spell_out(written[i], dims[i].size() - letters));
    ellipsis_dims = std::max(ellipsis_dims, dims[i].size() - letters);
  }
  if (arrow == std::string::npos) {
    equation.result = implicit_result(equation.terms, ellipsis_dims);
    return equation;
  }
  MEZZO_ASSIGN_OR_RETURN(const Written result,
                         parse_term(node, std::string_view(text).substr(arrow + 2)));
  equation.result = spell_out(result, ellipsis_dims);
  Labels sorted = equation.result;
  std::sort(sorted.begin(), sorted.end());
  bool sound = std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  for (const Label label : equation.result) {
    sound = sound && std::any_of(equation.terms.begin(), equation.terms.end(),
                                 [&](const Labels& term) { return contains(term, label); });
  }
  if (sound) return equation;
  return invalid_argument(describe(node) + ": attribute equation: the result of '" + text +
                          "' must name every label once, and only those of the operands");
}

struct Term {
  Value* value = nullptr;
  Labels labels;
  Ints dims;

  std::int64_t size(Label label) const {
    return dims[static_cast<std::size_t>(std::find(labels.begin(), labels.end(), label) -
                                         labels.begin())];
  }
};

class Contraction {
 public:
  Contraction(Builder& builder, const Node& node) : builder_(builder), node_(node) {}

  StatusOr<Value*> run(std::vector<Term> terms, const Labels& result) {
    for (Term& term : terms) MEZZO_RETURN_IF_ERROR(take_diagonals(term));
    MEZZO_RETURN_IF_ERROR(check_sizes(terms));
    while (terms.size() > 1) {
      Labels kept = result;
      for (std::size_t i = 2; i < terms.size(); ++i) {
        kept.insert(kept.end(), terms[i].labels.begin(), terms[i].labels.end());
      }
      terms[0] = combine(std::move(terms[0]), std::move(terms[1]), kept);
      terms.erase(terms.begin() + 1);
    }
    sum_out(terms[0], result);
    transpose(terms[0], result);
    return terms[0].value;
  }

 private:
  // A label of two terms has one size, or 1 in one of them.
  Status check_sizes(const std::vector<Term>& terms) const {
    std::map<Label, std::int64_t> sizes;
    for (const Term& term : terms) {
      for (const Label label : term.labels) {
        std::int64_t& size = sizes.emplace(label, 1).first->second;
        const std::int64_t mine = term.size(label);
        if (mine != size && mine != 1 && size != 1) {
          const std::string name =
              label < kEllipsis ? "'" + std::string(1, static_cast<char>(label)) + "'" : "'...'";
          return invalid_argument(describe(node_) + ": label " + name + " stands for sizes " +
                                  std::to_string(size) + " and " + std::to_string(mine));
        }
        if (mine != 1) size = mine;
      }
    }
    return ok_status();
  }

  void reshape(Term& term, const Ints& dims) {
    if (term.dims == dims) return;
    term.value = builder_.op("Reshape", {term.value, builder_.ints(dims)});
    term.dims = dims;
  }

  // Brings the dims into the order of `labels`, a permutation of the term's.
  void transpose(Term& term, const Labels& labels) {
    if (term.labels == labels) return;
    Ints perm, dims;
    for (const Label label : labels) {
      perm.push_back(std::find(term.labels.begin(), term.labels.end(), label) -
                     term.labels.begin());
      dims.push_back(term.size(label));
    }
    term.value = builder_.op("Transpose", {term.value}, {{"perm", perm}});
    term.labels = labels;
    term.dims = dims;
  }

  // A label that occurs twice: the elements whose two indices are equal.
  Status take_diagonals(Term& term) {
    for (std::size_t i = 0; i < term.labels.size(); ++i) {
      const Label label = term.labels[i];
      const auto again = std::find(term.labels.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                   term.labels.end(), label);
      if (again == term.labels.end()) continue;
      const auto j = static_cast<std::size_t>(again - term.labels.begin());
      const std::int64_t n = term.dims[i];
      if (term.dims[j] != n) {
        return invalid_argument(describe(node_) + ": a repeated label stands for sizes " +
                                std::to_string(n) + " and " + std::to_string(term.dims[j]));
      }
      Labels rest;
      Ints perm, dims;
      for (std::size_t k = 0; k < term.labels.size(); ++k) {
        if (k == i || k == j) continue;
        rest.push_back(term.labels[k]);
        perm.push_back(static_cast<std::int64_t>(k));
        dims.push_back(term.dims[k]);
      }
      const auto last = static_cast<std::int64_t>(dims.size());
      perm.insert(perm.end(), {static_cast<std::int64_t>(i), static_cast<std::int64_t>(j)});
      dims.push_back(n * n);
      Value* value = builder_.op("Transpose", {term.value}, {{"perm", perm}});
      value = builder_.op("Reshape", {value, builder_.ints(dims)});
      term.value = builder_.op("Slice", {value, builder_.ints({0}), builder_.ints({n * n}),
                                         builder_.ints({last}), builder_.ints({n + 1})});
      dims.back() = n;
      rest.push_back(label);
      term.dims = dims;
      term.labels = rest;
      i = static_cast<std::size_t>(-1);  // from the start: a label may occur three times
    }
    return ok_status();
  }

  // Sums over the labels that are not `kept`.
  void sum_out(Term& term, const Labels& kept) {
    Ints axes, dims;
    Labels labels;
    for (std::size_t i = 0; i < term.labels.size(); ++i) {
      if (contains(kept, term.labels[i])) {
        labels.push_back(term.labels[i]);
        dims.push_back(term.dims[i]);
      } else {
        axes.push_back(static_cast<std::int64_t>(i));
      }
    }
    if (axes.empty()) return;
    term.value = builder_.op("ReduceSum", {term.value, builder_.ints(axes)},
                             {{"keepdims", std::int64_t{0}}});
    term.labels = labels;
    term.dims = dims;
  }

  // A label of size 1 here and more in `other` says nothing here.
  void drop_broadcast(Term& term, const Term& other) {
    Labels labels;
    Ints dims;
    for (std::size_t i = 0; i < term.labels.size(); ++i) {
      const Label label = term.labels[i];
      if (term.dims[i] == 1 && contains(other.labels, label) && other.size(label) != 1) continue;
      labels.push_back(label);
      dims.push_back(term.dims[i]);
    }
    reshape(term, dims);
    term.labels = labels;
  }

  Term combine(Term a, Term b, const Labels& kept) {
    drop_broadcast(a, b);
    drop_broadcast(b, a);
    Labels for_a = kept, for_b = kept;
    for_a.insert(for_a.end(), b.labels.begin(), b.labels.end());
    for_b.insert(for_b.end(), a.labels.begin(), a.labels.end());
    sum_out(a, for_a);
    sum_out(b, for_b);
    Labels batch, summed, rows, columns;
    for (const Label label : a.labels) {
      const bool shared = contains(b.labels, label);
      (!shared ? rows : contains(kept, label) ? batch : summed).push_back(label);
    }
    for (const Label label : b.labels) {
      if (!contains(a.labels, label)) columns.push_back(label);
    }
    Term y;
    y.labels = joined({batch, rows, columns});
    for (const Label label : y.labels) {
      y.dims.push_back(contains(a.labels, label) ? a.size(label) : b.size(label));
    }
    const std::int64_t k = elems(a, summed);
    if (summed.empty()) return multiply(std::move(a), std::move(b), batch, rows, columns, y);
    transpose(a, joined({batch, rows, summed}));
    transpose(b, joined({batch, summed, columns}));
    const std::int64_t batches = elems(a, batch);
    const std::int64_t m = elems(a, rows);
    const std::int64_t n = elems(b, columns);
    const bool one = batch.empty();  // a plain product of matrices
    reshape(a, one ? Ints{m, k} : Ints{batches, m, k});
    reshape(b, one ? Ints{k, n} : Ints{batches, k, n});
    Term product{
        builder_.op("MatMul", {a.value, b.value}), {}, one ? Ints{m, n} : Ints{batches, m, n}};
    reshape(product, y.dims);
    y.value = product.value;
    return y;
  }

  Term multiply(Term a, Term b, const Labels& batch, const Labels& rows, const Labels& columns,
                Term y) {
    transpose(a, joined({batch, rows}));
    transpose(b, joined({batch, columns}));
    Ints a_dims = a.dims;
    a_dims.insert(a_dims.end(), columns.size(), 1);
    Ints b_dims = b.dims;
    b_dims.insert(b_dims.begin() + static_cast<std::ptrdiff_t>(batch.size()), rows.size(), 1);
    reshape(a, a_dims);
    reshape(b, b_dims);
    y.value = builder_.op("Mul", {a.value, b.value});
    return y;
  }

  static Labels joined(std::initializer_list<Labels> parts) {
    Labels all;
    for (const Labels& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  }
  static std::int64_t elems(const Term& term, const Labels& labels) {
    std::int64_t product = 1;
    for (const Label label : labels) product *= term.size(label);
    return product;
  }

  Builder& builder_;
  const Node& node_;
};

}  // namespace

StatusOr<Results> decompose_einsum(Builder& builder, const Node& node) {
  std::vector<Ints> dims;
  for (Value* operand : node.operands()) {
    const auto known = static_dims(operand);
    if (!known) return Results{};
    dims.push_back(*known);
  }
  if (dims.empty()) return Results{};
  MEZZO_ASSIGN_OR_RETURN(const Equation equation, read_equation(node, dims));
  std::vector<Term> terms;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    terms.push_back({node.operand(i), equation.terms[i], dims[i]});
  }
  MEZZO_ASSIGN_OR_RETURN(Value * result,
                         Contraction(builder, node).run(std::move(terms), equation.result));
  if (result == node.operand(0)) result = builder.op("Identity", {result});
  return Results{result};
}

}  // namespace mezzo
