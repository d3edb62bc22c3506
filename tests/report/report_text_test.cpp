// The report for terminals.

#include <algorithm>
#include <sstream>

#include "compiler/report/format.h"
#include "compiler/report/text_table.h"
#include "small_report.h"

namespace mezzo {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(ReportText, NamesRulesAndCauses) {
  const std::string text = report_text(test::small_report());
  EXPECT_THAT(text, HasSubstr("softmax is pinned to FP32"));
  EXPECT_THAT(text, HasSubstr("fp32->fp16"));
  EXPECT_THAT(text, HasSubstr("stored"));
  EXPECT_THAT(text, HasSubstr("removed"));
  EXPECT_THAT(text, HasSubstr("warning: opset 17 is old"));
  EXPECT_THAT(text, HasSubstr("pad: matmul: 3 -> 8 columns does not pay"));
}

TEST(ReportText, SaysWhatCalibrationChanged) {
  EXPECT_THAT(report_totals(test::small_report()), Not(HasSubstr("calibrated")));
  Records records = test::small_records();
  records.calibration = test::small_calibration();
  const std::string text = report_totals(test::small_report(records));
  EXPECT_THAT(text,
              HasSubstr("calibrated on 7 samples of a.npz and 1 more: 1 of 5 tensors near the "
                        "limits, 1 node kept FP32 that would run low without it, 1 low "
                        "instead\n"));
  EXPECT_THAT(text, HasSubstr("  'loop1 > m' reaches 170154 on the samples"));
  EXPECT_THAT(text, HasSubstr("1 of these would run low in BF16"));
  EXPECT_THAT(text, HasSubstr("outputs on 3 samples: within 0.0012 of FP32 ('s' the farthest)"));
}

TEST(ReportText, CountsPerRuleAtTheEnd) {
  const auto lines = lines_of(report_text(test::small_report()));
  const auto line = std::find_if(lines.begin(), lines.end(), [](const std::string& text) {
    return text.rfind("cut ", 0) == 0;
  });
  ASSERT_NE(line, lines.end());
  std::istringstream cells(*line);
  std::string rule;
  int low = 0, fp32 = -1, other = -1;
  cells >> rule >> low >> fp32 >> other;
  EXPECT_EQ(low, 3);
  EXPECT_EQ(fp32, 0);
  EXPECT_EQ(other, 0);
}

TEST(ReportText, FitsTheTerminal) {
  Report report = test::small_report();
  report.records.nodes[1].node = std::string(300, 'n');
  report.records.nodes[1].cause = std::string(300, 'c');
  report.records.warnings.clear();
  report.records.pads.clear();
  for (const int width : {100, 140}) {
    for (const std::string& line : lines_of(report_text(report, width))) {
      EXPECT_LE(line.size(), static_cast<std::size_t>(width)) << line;
    }
  }
  EXPECT_THAT(report_text(report), HasSubstr(std::string(150, 'c')));
}

TEST(ReportText, ControlCharactersOfNamesDoNotReachTheTerminal) {
  Report report = test::small_report();
  report.records.nodes[1].node = "evil\x1b[2Jname\n";
  EXPECT_THAT(report_text(report), Not(HasSubstr("\x1b")));
}

TEST(ReportText, Totals) {
  const std::string text = report_totals(test::small_report());
  EXPECT_THAT(text, HasSubstr("75.0% of 80 FLOP, 4 of 5 nodes"));
  EXPECT_THAT(text, HasSubstr("casts at run time: 2, moving 84 B"));
  EXPECT_THAT(text, HasSubstr("weights: 48 B -> 24 B (50%)"));
  EXPECT_THAT(text, HasSubstr("1.50 us (cut), all fp32 4.00 us, propagate 2.25 us"));
  EXPECT_THAT(text, Not(HasSubstr("planned peak"))) << "no plan was made";
  EXPECT_THAT(text,
              HasSubstr("policy          low flops  casts  bytes cast  weights  activations  "
                        "predicted\n"
                        "default (this)      77.4%      2        84 B     24 B         60 B    "
                        "1.50 us\n"
                        "inference          100.0%      1        48 B     24 B         36 B    "
                        "1.25 us"));
}

TEST(TextTable, AlignsCodePointsNotBytes) {
  TextTable table({{"name"}, {"n", true}});
  table.add({"\xC3\xA9t\xC3\xA9", "1"});
  table.add({"abc", "22"});
  EXPECT_EQ(table.text(), "name   n\n\xC3\xA9t\xC3\xA9    1\nabc   22\n");
}

TEST(TextTable, CutsWholeCodePointsOfTheWidestColumn) {
  TextTable table({{"a", false, 5}, {"b"}});
  table.add({"\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9", "stays"});
  EXPECT_EQ(lines_of(table.text(13))[1], "\xC3\xA9\xC3\xA9\xC3\xA9...  stays");
}

TEST(Format, Numbers) {
  EXPECT_EQ(format_flops(0), "0 FLOP");
  EXPECT_EQ(format_flops(999), "999 FLOP");
  EXPECT_EQ(format_flops(1000), "1.00 kFLOP");
  EXPECT_EQ(format_flops(1.8236e9), "1.82 GFLOP");
  EXPECT_EQ(format_flops(999.6e6), "1.00 GFLOP");
  EXPECT_EQ(format_us(12.34), "12.3 us");
  EXPECT_EQ(format_us(4560), "4.56 ms");
  EXPECT_EQ(format_us(2.5e6), "2.50 s");
  EXPECT_EQ(format_share(1, 3), "33.3%");
  EXPECT_EQ(format_share(1, 0), "-");
}

}  // namespace
}  // namespace mezzo
