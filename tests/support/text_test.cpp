#include "compiler/support/text.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/support/status_test.h"

namespace mezzo {
namespace {

using test::Rejects;
using testing::HasSubstr;

TEST(Text, JoinsPartsAndShapes) {
  EXPECT_EQ(join(std::vector<std::string>{"a", "b", "c"}, ", "), "a, b, c");
  EXPECT_EQ(join(std::vector<std::string>{}, ", "), "");
  EXPECT_EQ(format_dims(std::vector<std::int64_t>{2, -1, 3}), "[2,-1,3]");
  EXPECT_EQ(format_dims({}), "[]");
}

TEST(Text, EditDistanceCountsTheFourKindsOfEdits) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("adma", "adam"), 1U);  // neighbours exchanged
  EXPECT_EQ(edit_distance("ca", "abc"), 3U);     // no edits inside an exchanged pair
  EXPECT_EQ(edit_distance("flaw", "lawn"), 2U);
}

TEST(Text, ClosestMatchSuggestsSlipsAlone) {
  const std::vector<std::string> names = {"images", "labels", "input_ids", "Attention_Mask"};
  EXPECT_EQ(closest_match("image", names), "images");
  EXPECT_EQ(closest_match("lables", names), "labels");
  EXPECT_EQ(closest_match("attention_mask", names), "Attention_Mask");
  EXPECT_EQ(closest_match("input", names), "input_ids");  // its beginning
  EXPECT_EQ(closest_match("weights_of_the_model", names), std::nullopt);
  EXPECT_EQ(closest_match("", names), std::nullopt);
  EXPECT_EQ(closest_match("x", std::vector<std::string>{"y"}), "y");
  EXPECT_EQ(closest_match(std::string(300, 'a'), std::vector<std::string>{std::string(300, 'a')}),
            std::nullopt);
  EXPECT_EQ(did_you_mean("lables", names), " Did you mean 'labels'?");
  EXPECT_EQ(did_you_mean("zzzzzz", names), "");
}

TEST(Text, FormatsBytesAndCounts) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes((std::uint64_t{1} << 20) - 1), "1.0 MiB");  // not 1024.0 KiB
  EXPECT_EQ(format_bytes(std::numeric_limits<std::uint64_t>::max()), "16.0 EiB");
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1797), "1,797");
  EXPECT_EQ(format_count(-123456), "-123,456");
  EXPECT_EQ(format_count(std::numeric_limits<std::int64_t>::min()), "-9,223,372,036,854,775,808");
}

TEST(Text, NumbersReadBackExactly) {
  EXPECT_EQ(format_number(0.1F), "0.1");
  EXPECT_EQ(format_number(65536.0F), "65536");
  for (const float value : {1.0F / 3, 16777217.0F, 1.17549435e-38F, 3.4028235e38F, -0.0F}) {
    EXPECT_EQ(std::stof(format_number(value)), value);
  }
  EXPECT_EQ(std::stod(format_number(0.1 + 0.2)), 0.1 + 0.2);
}

TEST(Text, PrintableEscapesAndCuts) {
  EXPECT_EQ(printable("a\nb\x1b[31m"), "a\\x0ab\\x1b[31m");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
  EXPECT_EQ(printable("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
}

TEST(Pattern, MatchesAnywhereUnlessAnchored) {
  const auto pattern = test::value_or_die(Pattern::compile("aspp/", "--pin"));
  EXPECT_TRUE(pattern.matches("/decoder/aspp/conv1"));
  EXPECT_FALSE(pattern.matches("/decoder/conv1"));
  const auto whole = test::value_or_die(Pattern::compile("^conv[12]$", "--pin"));
  EXPECT_TRUE(whole.matches("conv1"));
  EXPECT_FALSE(whole.matches("xconv1"));
  EXPECT_EQ(whole.text(), "^conv[12]$");
}

TEST(Pattern, RejectsWhatIsNoExpression) {
  const auto broken = Pattern::compile("conv[", "--freeze");
  EXPECT_THAT(broken, Rejects("--freeze 'conv['"));
  EXPECT_THAT(Pattern::compile("*", "--pin"), Rejects("not a regular expression"));
}

TEST(Pattern, SurvivesNamesOfAnyLength) {
  const auto pattern = test::value_or_die(Pattern::compile("(a|b)*c$", "--pin"));
  EXPECT_FALSE(pattern.matches(std::string(10'000'000, 'a')));
}

// Expressions that make backtracking matchers try every way to split the name.
TEST(Pattern, TakesNoExponentialTime) {
  const std::string name = std::string(1000, 'a') + "b";
  for (const char* hostile : {"(a+)+$", "(a|aa)+$", "(a*)*(a*)*c", "(.*a){12}$", "(a|a)*d"}) {
    EXPECT_FALSE(test::value_or_die(Pattern::compile(hostile, "--pin")).matches(name)) << hostile;
  }
}

TEST(Pattern, KnowsWhatRegularExpressionsAreMadeOf) {
  const auto matches = [](const char* expression, const char* name) {
    return test::value_or_die(Pattern::compile(expression, "--pin")).matches(name);
  };
  EXPECT_TRUE(matches("^(?!.*/head/).*Conv$", "/stem/Conv"));
  EXPECT_FALSE(matches("^(?!.*/head/).*Conv$", "/head/Conv"));
  EXPECT_TRUE(matches("layers\\.[0-9]{1,2}/", "/layers.11/mlp"));
  EXPECT_FALSE(matches("layers\\.[0-9]{1,2}/", "/layers.111/mlp"));
  EXPECT_TRUE(matches("\\bq_proj\\b", "/attn/q_proj/MatMul"));
}

}  // namespace
}  // namespace mezzo
