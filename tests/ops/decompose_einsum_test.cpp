// Einsum against sums written out: every combination of values of the labels, one by one.
#include <gtest/gtest.h>

#include <map>

#include "tests/ops/decomposed.h"
#include "tests/support/status_test.h"

namespace mezzo::test {
namespace {

using Ints = std::vector<std::int64_t>;

// "ab" and the like: every character a label, the dims of an ellipsis spelled as digits.
struct EinsumCase {
  std::string equation;            // as ONNX has it
  std::vector<std::string> terms;  // its operands' labels spelled out
  std::string result;
  std::vector<Ints> dims;
};

std::size_t place_of(const std::string& labels, const Ints& dims,
                     const std::map<char, std::int64_t>& at) {
  std::int64_t place = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    place = place * dims[i] + (dims[i] == 1 ? 0 : at.at(labels[i]));
  }
  return static_cast<std::size_t>(place);
}

Doubles written_out(const EinsumCase& c, const std::vector<Doubles>& operands) {
  std::map<char, std::int64_t> sizes, at;
  for (std::size_t k = 0; k < c.terms.size(); ++k) {
    for (std::size_t i = 0; i < c.terms[k].size(); ++i) {
      std::int64_t& size = sizes.emplace(c.terms[k][i], 1).first->second;
      size = std::max(size, c.dims[k][i]);
    }
  }
  Ints result_dims;
  std::int64_t elems = 1, steps = 1;
  for (const char label : c.result) result_dims.push_back(sizes.at(label));
  for (const std::int64_t dim : result_dims) elems *= dim;
  for (const auto& [label, size] : sizes) steps *= size;
  Doubles sums(static_cast<std::size_t>(elems), 0.0);
  for (std::int64_t step = 0; step < steps; ++step) {
    std::int64_t rest = step;
    for (const auto& [label, size] : sizes) {
      at[label] = rest % size;
      rest /= size;
    }
    double product = 1.0;
    for (std::size_t k = 0; k < c.terms.size(); ++k) {
      product *= operands[k][place_of(c.terms[k], c.dims[k], at)];
    }
    sums[place_of(c.result, result_dims, at)] += product;
  }
  return sums;
}

const EinsumCase kCases[] = {
    {"ij,jk->ik", {"ij", "jk"}, "ik", {{2, 3}, {3, 4}}},
    {"ij,jk", {"ij", "jk"}, "ik", {{2, 3}, {3, 4}}},
    {"bij, bjk -> kbi", {"bij", "bjk"}, "kbi", {{2, 3, 4}, {2, 4, 5}}},
    {"bhqd,bhkd->bhqk", {"bhqd", "bhkd"}, "bhqk", {{2, 2, 3, 4}, {2, 2, 5, 4}}},
    {"ij->ji", {"ij"}, "ji", {{2, 3}}},
    {"ji", {"ji"}, "ij", {{2, 3}}},
    {"ij->", {"ij"}, "", {{2, 3}}},
    {"ij->i", {"ij"}, "i", {{2, 3}}},
    {"ii->i", {"ii"}, "i", {{3, 3}}},
    {"ii", {"ii"}, "", {{3, 3}}},
    {"iji->j", {"iji"}, "j", {{3, 2, 3}}},
    {"iii->i", {"iii"}, "i", {{2, 2, 2}}},
    {"i,j->ij", {"i", "j"}, "ij", {{2}, {3}}},
    {"i,i->i", {"i", "i"}, "i", {{3}, {3}}},
    {"i,i", {"i", "i"}, "", {{3}, {3}}},
    {"ij,kl->", {"ij", "kl"}, "", {{2, 3}, {3, 2}}},
    {"ijk,jil->kl", {"ijk", "jil"}, "kl", {{2, 3, 4}, {3, 2, 5}}},
    {"ab,bc,cd->ad", {"ab", "bc", "cd"}, "ad", {{2, 3}, {3, 4}, {4, 2}}},
    {"ab,ab,ab->b", {"ab", "ab", "ab"}, "b", {{2, 3}, {2, 3}, {2, 3}}},
    {"a,b,c->cab", {"a", "b", "c"}, "cab", {{2}, {3}, {2}}},
    {"...ij,...jk->...ik", {"01ij", "01jk"}, "01ik", {{2, 3, 2, 3}, {2, 3, 3, 2}}},
    {"...i->...", {"01i"}, "01", {{2, 3, 4}}},
    {"i...,i...", {"i0", "i0"}, "0", {{2, 3}, {2, 3}}},
    {"...ij,jk->...ik", {"0ij", "jk"}, "0ik", {{2, 2, 3}, {3, 4}}},
    {"ij,ij->i", {"ij", "ij"}, "i", {{2, 3}, {2, 1}}},
    {"Ab,bA->A", {"Ab", "bA"}, "A", {{2, 3}, {3, 2}}},
};

TEST(DecomposeEinsum, EqualsTheSumsWrittenOut) {
  for (const EinsumCase& c : kCases) {
    SCOPED_TRACE(c.equation);
    OpSample sample;
    sample.op = "Einsum";
    for (const Ints& dims : c.dims) sample.operands.push_back(f(dims));
    sample.attributes = {{"equation", c.equation}};
    auto op = decomposed(sample);
    ASSERT_THAT(op, IsOk());
    std::vector<Doubles> operands;
    for (std::size_t i = 0; i < c.dims.size(); ++i) operands.push_back(op->input(i));
    expect_near(op->run(), written_out(c, operands));
  }
}

TEST(DecomposeEinsum, RefusesWhatMeansNothing) {
  const auto refuses = [](const std::string& equation, const std::vector<Ints>& dims) {
    OpSample sample;
    sample.op = "Einsum";
    for (const Ints& one : dims) sample.operands.push_back(f(one));
    sample.attributes = {{"equation", equation}};
    return decomposed(sample);
  };
  using testing::HasSubstr;
  const auto wrong = [](const char* what) {
    return FailsWith(StatusCode::kInvalidArgument, HasSubstr(what));
  };
  // The library's inference would read the first three for ever.
  EXPECT_THAT(refuses("i$j->i", {{2, 3}}), wrong("is no list of terms"));
  EXPECT_THAT(refuses("...i...->i", {{2, 3}}), wrong("is no list of terms"));
  EXPECT_THAT(refuses("i.j->i", {{2, 3}}), wrong("is no list of terms"));
  EXPECT_THAT(refuses("ij->i->j", {{2, 3}}), wrong("is no list of terms"));
  EXPECT_THAT(refuses("ij->ii", {{2, 3}}), wrong("name every label once"));
  EXPECT_THAT(refuses("ij,jk->ik", {{2, 3}, {4, 2}}), wrong("label 'j' stands for sizes 3 and 4"));
  EXPECT_THAT(refuses("ii->i", {{2, 3}}), wrong("repeated label"));
  EXPECT_THAT(refuses("ij,jk->ik", {{2, 3}}), wrong("Einsum"));
  EXPECT_THAT(refuses("ijk->i", {{2, 3}}), wrong("Einsum"));
}

}  // namespace
}  // namespace mezzo::test
