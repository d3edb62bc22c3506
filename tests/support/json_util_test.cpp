#include "compiler/support/json_util.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/status_test.h"
#include "tests/support/temp_dir.h"

namespace mezzo {
namespace {

using nlohmann::json;
using test::Rejects;
using test::value_or_die;

TEST(Json, ReadsTypedMembers) {
  const json object = value_or_die(parse_json(
      R"({"i":-3,"u":18446744073709551615,"f":0.5,"inf":"inf","b":true,"s":"x","o":{},"a":[1]})",
      "t"));
  EXPECT_EQ(value_or_die(json_int(object, "i")), -3);
  EXPECT_EQ(value_or_die(json_uint(object, "u")), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(value_or_die(json_number(object, "f")), 0.5);
  EXPECT_EQ(value_or_die(json_number(object, "i")), -3.0);
  EXPECT_TRUE(std::isinf(value_or_die(json_number(object, "inf"))));
  EXPECT_TRUE(value_or_die(json_bool(object, "b")));
  EXPECT_EQ(value_or_die(json_string(object, "s")), "x");
  EXPECT_TRUE(value_or_die(json_object(object, "o"))->empty());
  EXPECT_EQ(value_or_die(json_array(object, "a"))->size(), 1U);
}

TEST(Json, NamesTheKeyThatIsWrong) {
  const json object = {{"i", 1.5}, {"b", 1}, {"s", nullptr}, {"n", "1"}};
  EXPECT_THAT(json_int(object, "none"), Rejects("key 'none' is missing"));
  EXPECT_THAT(json_int(object, "i"), Rejects("key 'i': expected an integer, got 1.5"));
  EXPECT_THAT(json_bool(object, "b"), Rejects("expected true or false, got 1"));
  EXPECT_THAT(json_string(object, "s"), Rejects("expected a string, got null"));
  EXPECT_THAT(json_number(object, "n"), Rejects("expected a number, got \"1\""));
  EXPECT_THAT(json_uint({{"u", -1}}, "u"), Rejects("at least 0"));
  EXPECT_THAT(json_int({{"u", std::uint64_t{1} << 63}}, "u"), Rejects("below 2^63"));
  EXPECT_THAT(json_int(json::array(), "x"), Rejects("expected a JSON object"));
}

TEST(Json, RefusesWhatReadersWouldDisagreeAbout) {
  EXPECT_THAT(parse_json(R"({"a":{"x":1,"y":2,"x":3}})", "f.json"),
              Rejects("f.json: JSON key 'x' occurs twice"));
  EXPECT_THAT(parse_json(R"({"a":{"x":1},"b":{"x":1}})", "f"), test::IsOk());
  EXPECT_THAT(parse_json("{\"a\":", "f.json"), Rejects("f.json: not valid JSON"));
  EXPECT_THAT(parse_json("{} x", "f"), Rejects("not valid JSON"));
  EXPECT_THAT(parse_json("\"\xff\"", "f"), Rejects("not valid JSON"));
}

TEST(Json, DeepNestingIsNoProblem) {
  const std::string deep(200'000, '[');
  EXPECT_THAT(parse_json(deep, "f"), Rejects("not valid JSON"));
  EXPECT_THAT(parse_json(deep + std::string(200'000, ']'), "f"), test::IsOk());
}

TEST(Json, FilesHaveALimit) {
  const test::TempDir dir;
  test::write_text(dir.file("a.json"), "[1,2,3]");
  EXPECT_EQ(value_or_die(read_json(dir.file("a.json"))).size(), 3U);
  EXPECT_THAT(read_json(dir.file("a.json"), 6), Rejects("expected at most 6 B"));
  EXPECT_THAT(read_json(dir.file("b.json")), Rejects("cannot be read"));
}

TEST(Json, InfinityGoesThereAndBack) {
  const json object = {{"x", json_from_number(std::numeric_limits<double>::infinity())},
                       {"y", json_from_number(0.1)}};
  const json back = value_or_die(parse_json(json_text(object), "t"));
  EXPECT_TRUE(std::isinf(value_or_die(json_number(back, "x"))));
  EXPECT_EQ(value_or_die(json_number(back, "y")), 0.1);
  EXPECT_EQ(json_text(json("\xff")), "\"\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace mezzo
