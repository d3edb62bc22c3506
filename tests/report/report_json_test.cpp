// JSON out and in: the documented form, and files that lie.

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "small_report.h"
#include "tests/support/temp_dir.h"

namespace mezzo {
namespace {

using nlohmann::json;
using test::IsOk;
using test::Rejects;
using test::small_report;

TEST(ReportJson, Golden) {
  const std::string made = report_json(small_report());
  if (std::getenv("MEZZO_UPDATE_GOLDEN") != nullptr) test::write_text("small_report.json", made);
  EXPECT_EQ(made, test::read_text("small_report.json"))
      << "if the change is meant, run this test with MEZZO_UPDATE_GOLDEN=1 and read the difference";
}

TEST(ReportJson, ReadsWhatItWrote) {
  const Report report = small_report();
  const auto read = read_report(report_json(report));
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(*read, report);
}

TEST(ReportJson, ReadsTheCalibrationThatItWrote) {
  Report report = small_report();
  report.records.calibration = test::small_calibration();
  const auto read = read_report(report_json(report));
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(*read, report);
  for (const double error : {-1.0, CalibrationRecord::kInfiniteError}) {
    report.records.calibration->output_error = error;
    if (error < 0) {
      report.records.calibration->worst_output.clear();
      report.records.calibration->checked_samples = 0;
    } else {
      report.records.calibration->worst_output = "s";
    }
    const auto again = read_report(report_json(report));
    ASSERT_THAT(again, IsOk());
    EXPECT_EQ(*again, report) << error;
  }
}

TEST(ReportJson, RefusesADamagedCalibration) {
  Report report = small_report();
  report.records.calibration = test::small_calibration();
  const auto spoilt = [&](const char* key, json value) {
    json edited = json::parse(report_json(report));
    edited["calibration"][key] = std::move(value);
    return read_report(edited.dump());
  };
  EXPECT_THAT(spoilt("samples", -1), Rejects("calibration: key 'samples'"));
  EXPECT_THAT(spoilt("changes", 1), Rejects("calibration: key 'changes'"));
  EXPECT_THAT(spoilt("changes", {{{"node", "a"}}}),
              Rejects("calibration: changes[0]: key 'scope'"));
  EXPECT_THAT(spoilt("output_error", -2), Rejects("key 'output_error'"));
}

TEST(ReportJson, KeepsExtremeNumbersAndNames) {
  Report report = small_report();
  report.records.nodes[0].flops = 1.0 / 3;
  report.records.nodes[0].bytes = ~std::uint64_t{0};
  report.records.nodes[0].node =
      "quote \" backslash \\ newline \n nul-ish \x01 </script> \xE2\x88\x91";
  report.totals = sum_totals(report.records);
  const auto read = read_report(report_json(report));
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(*read, report);
}

TEST(ReportJson, InvalidUtf8IsReplacedNotThrown) {
  Report report = small_report();
  report.records.nodes[0].node = "bad \xFF\xC0 name";
  EXPECT_THAT(read_report(report_json(report)), IsOk());
}

TEST(ReportJson, TotalsInTheFileAreNotTrusted) {
  json edited = json::parse(report_json(small_report()));
  edited["totals"]["low_flops"] = 1e18;
  const auto read = read_report(edited.dump());
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->totals, small_report().totals);
}

TEST(ReportJson, UnknownKeysAreIgnored) {
  json edited = json::parse(report_json(small_report()));
  edited["from the future"] = {1, 2, 3};
  EXPECT_THAT(read_report(edited.dump()), IsOk());
}

TEST(ReportJson, OtherFilesAreRefused) {
  for (const char* text : {"", "{", "[]", "{}", "null", "\"mezzo-report\"", "{\"format\": 3}",
                           "{\"format\": \"mezzo-checkpoint\"}", "\xFF\xFE"}) {
    const auto read = read_report(text, "file.json");
    EXPECT_THAT(read, Rejects("file.json")) << text;
  }
}

TEST(ReportJson, LaterVersionsAreRefused) {
  json edited = json::parse(report_json(small_report()));
  edited["format_version"] = 2;
  const auto read = read_report(edited.dump());
  EXPECT_THAT(read, test::FailsWith(StatusCode::kUnimplemented, testing::HasSubstr("version 2")));
}

// One field of a good report replaced by something that does not belong there.
TEST(ReportJson, HostileFieldsAreRefused) {
  const struct {
    const char* pointer;
    json value;
    const char* message;
  } cases[] = {
      {"/graph/nodes/0/decision", 6, "below 6"},
      {"/graph/nodes/0/decision", -1, "decision"},
      {"/graph/nodes/0/cast", 4, "below 4"},
      {"/graph/nodes/0/kind", "demon", "demon"},
      {"/graph/edges/0/to", 1000000, "to"},
      {"/graph/edges/0/from", 18446744073709551615u, "from"},
      {"/graph/edges/0/to", 1.5, "integer"},
      {"/graph/edges/0", "edge", "edges[0]"},
      {"/nodes/1/rule", "mood", "mood"},
      {"/nodes/1/dtype", "float17", "float17"},
      {"/nodes/1/flops", -1, "at least 0"},
      {"/nodes/1/flops", "inf", "finite"},
      {"/nodes/1/bytes", -5, "bytes"},
      {"/nodes/1/name", json::array(), "name"},
      {"/casts/0/consumers", json::array({1}), "consumers"},
      {"/casts/0/from", nullptr, "from"},
      {"/casts/0/ahead_of_time", 1, "ahead_of_time"},
      {"/bytes/live", "many", "live"},
      {"/cost/objective_us", json::object(), "objective_us"},
      {"/warnings", "none", "warnings"},
      {"/policy/0", json::array(), "policy[0]"},
      {"/nodes", json::object(), "nodes"},
  };
  for (const auto& hostile : cases) {
    json edited = json::parse(report_json(small_report()));
    edited[json::json_pointer(hostile.pointer)] = hostile.value;
    EXPECT_THAT(read_report(edited.dump()), Rejects(hostile.message)) << hostile.pointer;
  }
}

TEST(ReportJson, MissingKeysAreRefused) {
  const json whole = json::parse(report_json(small_report()));
  for (const auto& [key, value] : whole.items()) {
    if (key == "totals" || key == "comparison") continue;  // summed again; not in older reports
    json edited = whole;
    edited.erase(key);
    EXPECT_FALSE(read_report(edited.dump()).ok()) << key;
  }
}

// Written before conversion looked into graphs inside nodes.
TEST(ReportJson, OlderReportsHaveNoScope) {
  json older = json::parse(report_json(small_report()));
  for (const char* list : {"nodes", "casts"}) {
    for (json& entry : older.at(list)) entry.erase("scope");
  }
  const Report report = test::value_or_die(read_report(older.dump()));
  EXPECT_EQ(report.records, small_report().records);
}

TEST(ReportJson, EveryTruncationIsRefused) {
  const std::string whole = report_json(small_report());
  for (std::size_t length = 0; length + 2 < whole.size(); length += 7) {
    EXPECT_FALSE(read_report(std::string_view(whole).substr(0, length)).ok()) << length;
  }
}

TEST(ReportJson, DeepNestingIsRefused) { EXPECT_FALSE(read_report(std::string(200000, '[')).ok()); }

}  // namespace
}  // namespace mezzo
