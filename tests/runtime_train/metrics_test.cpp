#include "runtime/train/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/status_test.h"
#include "tests/support/temp_dir.h"

namespace mezzo::runtime {
namespace {

using test::IsOk;
using test::read_text;
using test::Rejects;
using test::TempDir;
using test::value_or_die;
using testing::HasSubstr;

StepMetrics sample(std::int64_t step) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = 2.3379574F;
  metrics.grad_norm = 0.564944958;
  metrics.lr = 0.05;
  metrics.loss_scale = 65536;
  metrics.step_ms = 1.23456;
  return metrics;
}

TEST(MetricsLine, NamesTheOptimizersThatSkipped) {
  StepMetrics metrics;
  metrics.skipped_optimizers = 0b101;
  EXPECT_THAT(metrics_line(metrics),
              testing::HasSubstr("\"skipped\":false,\"skipped_optimizers\":[0,2],\"step_ms\""));
  metrics.skipped = true;  // all: that says it
  EXPECT_THAT(metrics_line(metrics), testing::Not(testing::HasSubstr("optimizers")));
}

TEST(Metrics, OneLineOfJson) {
  EXPECT_EQ(metrics_line(sample(1)),
            R"({"step":1,"loss":2.3379574,"grad_norm":0.564944958,"lr":0.05,"loss_scale":65536,)"
            R"("skipped":false,"step_ms":1.235})");
  StepMetrics skipped = sample(2);
  skipped.skipped = true;
  skipped.grad_norm.reset();
  skipped.loss = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(metrics_line(skipped),
            R"({"step":2,"loss":null,"grad_norm":null,"lr":0.05,"loss_scale":65536,)"
            R"("skipped":true,"step_ms":1.235})");
}

TEST(Metrics, NumbersReadBackExactly) {
  StepMetrics metrics = sample(1);
  for (const float loss : {1.0F / 3, 1e-30F, 16777217.0F, 0.1F, 3.4e38F}) {
    metrics.loss = metrics.loss_scale = loss;
    metrics.lr = 0.1 / 3;
    const auto row = nlohmann::json::parse(metrics_line(metrics));
    EXPECT_EQ(row["loss"].get<float>(), loss);
    EXPECT_EQ(row["loss_scale"].get<float>(), loss);
    EXPECT_EQ(row["lr"].get<double>(), 0.1 / 3);
  }
}

TEST(MetricsWriter, LinesAreThereAtOnce) {
  const TempDir dir;
  MetricsWriter writer = value_or_die(MetricsWriter::create(dir.file("m.jsonl")));
  ASSERT_THAT(writer.write(sample(1)), IsOk());
  EXPECT_EQ(read_text(dir.file("m.jsonl")), metrics_line(sample(1)) + "\n");
  ASSERT_THAT(writer.write(sample(2)), IsOk());
  EXPECT_EQ(read_text(dir.file("m.jsonl")),
            metrics_line(sample(1)) + "\n" + metrics_line(sample(2)) + "\n");
  EXPECT_THAT(MetricsWriter::create(dir.file("no/m.jsonl")), Rejects("cannot be written"));
}

TEST(MetricsWriter, ResumesAfterTheCheckpoint) {
  const TempDir dir;
  const std::string path = dir.file("m.jsonl");
  {
    MetricsWriter writer = value_or_die(MetricsWriter::resume(path, 0));  // nothing there yet
    for (int step = 1; step <= 5; ++step) ASSERT_THAT(writer.write(sample(step)), IsOk());
  }
  test::write_text(path, read_text(path) + "{\"step\":6,\"lo");  // a crash while writing
  MetricsWriter writer = value_or_die(MetricsWriter::resume(path, 3));
  ASSERT_THAT(writer.write(sample(4)), IsOk());
  std::string expected;
  for (int step = 1; step <= 4; ++step) expected += metrics_line(sample(step)) + "\n";
  EXPECT_EQ(read_text(path), expected);
}

TEST(MetricsWriter, DoesNotCutForeignFiles) {
  const TempDir dir;
  test::write_text(dir.file("m.jsonl"), "precious\n");
  EXPECT_THAT(MetricsWriter::resume(dir.file("m.jsonl"), 3), Rejects("line 1: not valid JSON"));
  EXPECT_EQ(read_text(dir.file("m.jsonl")), "precious\n");
  test::write_text(dir.file("m.jsonl"), "{\"epoch\":1}\n");
  EXPECT_THAT(MetricsWriter::resume(dir.file("m.jsonl"), 3),
              Rejects("key 'step' is missing. Hint: the file is not the metrics of a run"));
}

std::vector<std::string> lines_of_run(std::int64_t steps) {
  std::vector<std::string> lines;
  ProgressOptions options;
  options.total_steps = steps;
  ProgressReporter reporter(options, [&](std::string_view text) { lines.emplace_back(text); });
  for (std::int64_t step = 1; step <= steps; ++step) {
    reporter.update({step, 2.0 / static_cast<double>(step), 1024, 0, step * 32,
                     static_cast<double>(step) * 0.01});
  }
  reporter.finish();
  return lines;
}

TEST(Progress, AboutTenPlainLinesInAPipe) {
  const auto lines = lines_of_run(60);
  ASSERT_EQ(lines.size(), 11U);
  EXPECT_EQ(lines[0], "step 1/60  loss 2  scale 1024  3.20k samples/s\n");
  EXPECT_THAT(lines[1], HasSubstr("step 6/60"));
  EXPECT_THAT(lines[10], HasSubstr("step 60/60"));
  for (const std::string& line : lines) EXPECT_EQ(line.find('\r'), std::string::npos);
  EXPECT_EQ(lines_of_run(1).size(), 1U);
  EXPECT_EQ(lines_of_run(3).size(), 3U);
  EXPECT_LE(lines_of_run(12'345).size(), 11U);
}

TEST(Progress, ABarOnATerminal) {
  std::vector<std::string> shown;
  ProgressOptions options;
  options.total_steps = 100;
  options.terminal = true;
  ProgressReporter reporter(options, [&](std::string_view text) { shown.emplace_back(text); });
  for (std::int64_t step = 1; step <= 100; ++step) {
    reporter.update(
        {step, 0.5, 65536, step > 50 ? 2 : 0, step * 8, static_cast<double>(step) * 0.02});
  }
  reporter.finish();
  reporter.finish();
  EXPECT_LT(shown.size(), 30U);  // 2 s at ten redraws a second
  EXPECT_THAT(shown[0], HasSubstr("step 1/100  loss 0.5  scale 65536"));
  EXPECT_EQ(shown[shown.size() - 1], "\n");
  const std::string& last = shown[shown.size() - 2];
  EXPECT_TRUE(last.starts_with("\r[=")) << last;
  EXPECT_THAT(last, HasSubstr("=] step 100/100"));
  EXPECT_THAT(last, HasSubstr("400 samples/s  skipped 2"));
  for (const std::string& text : shown) {
    if (text == "\n") continue;
    EXPECT_LE(text.size() - 1 - 3, 80U);  // without \r and the erase code
  }
}

TEST(Progress, NarrowTerminalsGetACutLineAndNoBar) {
  std::string shown;
  ProgressOptions options;
  options.total_steps = 10;
  options.terminal = true;
  options.columns = 20;
  options.show_scale = false;
  ProgressReporter reporter(options, [&](std::string_view text) { shown = text; });
  reporter.update({1, 0.5, 1, 0, 8, 0.02});
  EXPECT_EQ(shown, "\rstep 1/10  loss 0.5\x1b[K");
}

}  // namespace
}  // namespace mezzo::runtime
