#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "compiler/onnx/export.h"
#include "compiler/onnx/import.h"
#include "model_files.h"
#include "tests/support/status_test.h"

namespace mezzo {
namespace {

using test::FailsWith;
using test::IsOk;
using testing::HasSubstr;
using testing::Not;

std::unique_ptr<Model> small_model() {
  return test::value_or_die(import_text(test::kSmallModel, "small"));
}

TEST(Text, IsReadBack) {
  const auto model = small_model();
  const std::string text = test::value_or_die(to_text(*model, Weights::kEmbedded));
  const auto again = test::value_or_die(import_text(text));
  EXPECT_EQ(test::value_or_die(to_text(*again, Weights::kEmbedded)), text);
  onnx::ModelProto expected, actual;
  ASSERT_THAT(to_proto(*model, {}, expected), IsOk());
  ASSERT_THAT(to_proto(*again, {}, actual), IsOk());
  EXPECT_TRUE(test::same_proto(expected, actual));
}

TEST(Text, LoadTellsTextFromBinary) {
  const test::TempDir dir;
  test::write_text(dir.file("m.onnxtxt"), "# a comment\n" + std::string(test::kSmallModel));
  const auto model = test::value_or_die(load_model(dir.file("m.onnxtxt")));
  EXPECT_EQ(model->source_path, dir.file("m.onnxtxt"));
  ASSERT_THAT(export_model(*model, dir.file("m.onnx")), IsOk());
  EXPECT_THAT(load_model(dir.file("m.onnx")), IsOk());
  EXPECT_FALSE(import_model(dir.file("m.onnxtxt")).ok());
}

TEST(Text, DumpsShowLargeTensorsAsStubs) {
  const auto model = small_model();
  const std::vector<float> values(1000, 0.5F);
  model->graph->add_initializer("large", Tensor::from_floats({10, 100}, values));
  Node* node = model->graph->find("other")->producer();
  node->set_attribute("table", NamedTensor{"", Tensor::from_floats({1000}, values)});
  const std::string text = test::value_or_die(to_text(*model, Weights::kElided));
  EXPECT_THAT(text, HasSubstr("float[10,100] large = [\"location\": \"elided\""));
  EXPECT_THAT(text, Not(HasSubstr("0.5")));
  EXPECT_THAT(text, HasSubstr("{1,2,3,4}"));
  // The syntax is valid, but the model is not whole.
  EXPECT_THAT(import_text(text), test::Rejects("data were left out of a dump"));
  const std::string whole = test::value_or_die(to_text(*model, Weights::kEmbedded));
  EXPECT_EQ(test::value_or_die(import_text(whole))->graph->find("large")->constant()->elems(),
            1000);
}

TEST(Text, HoldsSpecialNumbersAndNames) {
  const auto model = small_model();
  const float values[] = {std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN(),
                          -0.0F,
                          1e-45F,
                          3.4028235e38F};
  model->graph->add_initializer("a name/with:odd \"characters\"", Tensor::from_floats({6}, values));
  model->graph->add_initializer("half", Tensor::scalar(DType::kFloat16, -2.0));
  model->graph->add_initializer("flag", Tensor::scalar(DType::kBool, 1.0));
  const std::string text = test::value_or_die(to_text(*model, Weights::kEmbedded));
  const auto again = test::value_or_die(import_text(text));
  const TensorRef tensor = again->graph->find("a name/with:odd \"characters\"")->constant();
  const auto back = tensor->to_doubles();
  EXPECT_TRUE(std::isinf(back[0]) && std::isnan(back[2]) && std::signbit(back[3]));
  EXPECT_EQ(back[4], static_cast<double>(1e-45F));
  EXPECT_EQ(again->graph->find("half")->constant()->to_doubles().at(0), -2.0);
}

TEST(Text, SaysWhatItCannotHold) {
  const auto unimplemented_with = [](const std::string& part) {
    return FailsWith(StatusCode::kUnimplemented, HasSubstr(part));
  };
  auto model = small_model();
  model->graph->add_initializer("i4", Tensor::from_bytes(DType::kInt4, {2}, {std::byte{0x21}}));
  EXPECT_THAT(to_text(*model, Weights::kEmbedded), unimplemented_with("constants of type int4"));
  EXPECT_THAT(to_text(*model, Weights::kElided), IsOk());
  model = small_model();
  model->training_info.emplace_back().update_binding = {{"scale", "y"}};
  EXPECT_THAT(to_text(*model, Weights::kEmbedded), unimplemented_with("training_info"));
  model = small_model();
  model->graph->find("other")->producer()->set_attribute("odd-name", std::int64_t{1});
  EXPECT_THAT(to_text(*model, Weights::kEmbedded), unimplemented_with("ONNX text syntax"));
}

TEST(Text, LeavesNotesOut) {
  auto model = small_model();
  model->graph->doc_string = "doc";
  model->graph->nodes().front()->metadata = {{"k", "v"}};
  EXPECT_THAT(to_text(*model, Weights::kEmbedded), IsOk());
}

}  // namespace
}  // namespace mezzo
