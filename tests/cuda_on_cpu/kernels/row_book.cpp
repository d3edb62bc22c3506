#include "tests/cuda_on_cpu/kernels/row_book.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "kernels/cuda/rows.h"
#include "kernels/reference/rows.h"

namespace mezzo::kernels {
namespace {

struct Book {
  std::map<const KernelEntry*, int> tested;
  std::set<std::string> without_row;
  std::set<std::string> refused;  // "Op: reason" of foreseen refusals that came
};

Book& book() {
  static auto* const all = new Book;
  return *all;
}

const LeftOut* find_left_out(std::string_view op) {
  const auto all = operators_left_out();
  const auto found =
      std::find_if(all.begin(), all.end(), [op](const LeftOut& row) { return row.op == op; });
  return found == all.end() ? nullptr : &*found;
}

std::string key(const Refused& refused) {
  return std::string(refused.op) + ": " + std::string(refused.reason);
}

void check_operators() {
  std::set<std::string_view> known;
  for (const KernelEntry& row : reference_rows()) known.insert(row.op);
  for (const std::string_view op : known) {
    const bool has_row = !cuda::rows(op).empty();
    const LeftOut* const left_out = find_left_out(op);
    EXPECT_FALSE(has_row && left_out != nullptr)
        << op << " has a CUDA row: take it off the list in left_out.cpp";
    EXPECT_TRUE(has_row || left_out != nullptr)
        << op << " has no CUDA row, and left_out.cpp does not say why";
  }
  for (const LeftOut& row : operators_left_out()) {
    EXPECT_EQ(known.count(row.op), 1U) << row.op << " in left_out.cpp is no operator";
    EXPECT_FALSE(row.why.empty()) << row.op;
  }
}

void check_rows() {
  for (const KernelEntry* const row : cuda::all_rows()) {
    EXPECT_GT(book().tested[row], 0)
        << "no test ran the row " << row->implementation << " of " << row->op;
  }
  for (const Refused& refused : requests_refused()) {
    EXPECT_EQ(book().refused.count(key(refused)), 1U)
        << "no test saw the refusal '" << refused.reason << "' of " << refused.op
        << " that left_out.cpp foresees";
  }
}

// Checked at the end; of no use where only some of the tests were run.
class AllRowsAreTested : public ::testing::Environment {
 public:
  void TearDown() override {
    const auto* const unit = ::testing::UnitTest::GetInstance();
    if (::testing::GTEST_FLAG(filter) != "*" || unit->Failed()) return;
    check_operators();
    check_rows();
    std::size_t cases = 0;
    for (const auto& [row, count] : book().tested) cases += static_cast<std::size_t>(count);
    std::printf("%zu CUDA rows ran %zu cases\n", book().tested.size(), cases);
  }
};

const auto* const kEnvironment = ::testing::AddGlobalTestEnvironment(new AllRowsAreTested);

}  // namespace

void note_tested(const KernelEntry& row) { ++book().tested[&row]; }
bool was_tested(const KernelEntry& row) { return book().tested.count(&row) != 0; }

void note_refused(std::string_view op, const std::string& reasons) {
  if (cuda::rows(op).empty()) {  // told once: the tests have many cases
    if (!book().without_row.insert(std::string(op)).second) return;
    EXPECT_NE(find_left_out(op), nullptr)
        << op << " has no CUDA row, and left_out.cpp does not say why";
    return;
  }
  for (const Refused& refused : requests_refused()) {
    if (refused.op == op && reasons.find(refused.reason) != std::string::npos) {
      book().refused.insert(key(refused));
      return;
    }
  }
  ADD_FAILURE() << "no CUDA row took the request: " << reasons;
}

}  // namespace mezzo::kernels
