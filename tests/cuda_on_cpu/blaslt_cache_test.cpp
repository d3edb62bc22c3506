// The file in which choices of algorithms are kept: that they are taken up again, and that nothing
// in it is believed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cublasLt.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/cuda/blaslt_cache.h"
#include "tests/cuda_on_cpu/blaslt_products.h"
#include "tests/support/status_test.h"
#include "tests/support/temp_dir.h"

namespace mezzo::kernels::cuda {
namespace {

using test::IsOk;
using ::testing::HasSubstr;
using ::testing::Not;

BlasLtChoices some_choices() {
  BlasLtChoices choices;
  for (std::uint64_t i = 0; i < 3; ++i) {
    BlasLtChoice choice;
    choice.workspace_bytes = i * 1000;
    choice.timed = i + 1;
    for (std::uint64_t& word : choice.algorithm) word = 0x123456789abcdef0 * (i + 1);
    choices["1,2,3,key" + std::to_string(i)] = choice;
  }
  return choices;
}

TEST(BlasLtChoices, AreReadAsWritten) {
  const BlasLtChoices choices = some_choices();
  const std::string text = format_choices("GPU 9.0", choices);
  const auto read = parse_choices(text, "GPU 9.0");
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(*read, choices);
  EXPECT_THAT(parse_choices(format_choices("GPU 9.0", {}), "GPU 9.0"), IsOk());
}

TEST(BlasLtChoices, AnyAlteredByteIsNoticed) {
  const std::string text = format_choices("GPU 9.0", some_choices());
  for (std::size_t i = 0; i < text.size(); ++i) {
    EXPECT_THAT(parse_choices(text.substr(0, i), "GPU 9.0"), Not(IsOk())) << "cut at " << i;
    std::string altered = text;
    altered[i] = static_cast<char>(altered[i] ^ 1);
    EXPECT_THAT(parse_choices(altered, "GPU 9.0"), Not(IsOk())) << "altered at " << i;
  }
  EXPECT_THAT(parse_choices(text + "x", "GPU 9.0"), Not(IsOk()));
}

// Texts whose checksum is right.
std::string sealed(const std::string& lines) {
  std::string text = "mezzo cuBLASLt choices 1\n" + lines;
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  std::ostringstream sum;
  sum << std::hex;
  sum.width(16);
  sum.fill('0');
  sum << hash;
  return text + "checksum " + sum.str() + "\n";
}

TEST(BlasLtChoices, OddEntriesAreRefused) {
  const std::string algorithm(128, 'a');
  EXPECT_THAT(parse_choices(sealed("GPU\nkey 5 1 " + algorithm + "\n"), "GPU"), IsOk());
  for (const std::string& lines : std::vector<std::string>{
           "key 5 1 " + algorithm + "0\n", "key 5 1 " + algorithm.substr(1) + "\n",
           "key 5 1 " + std::string(128, 'z') + "\n", "key -5 1 " + algorithm + "\n",
           "key 99999999999999999999 1 " + algorithm + "\n", " 5 1 " + algorithm + "\n", "key 5\n",
           std::string("\n"), std::string(600, 'k') + " 5 1 " + algorithm + "\n",
           "key 5 1 " + algorithm + "\nkey 5 1 " + algorithm + "\n", "key 5 1 " + algorithm}) {
    EXPECT_THAT(parse_choices(sealed("GPU\n" + lines), "GPU"), Not(IsOk())) << lines;
  }
  EXPECT_THAT(parse_choices(sealed("other GPU\nkey 5 1 " + algorithm + "\n"), "GPU"), Not(IsOk()));
  EXPECT_THAT(parse_choices(sealed(""), "GPU"), Not(IsOk()));
}

// A product that the stand-in multiplies in parts, which takes a workspace, if it is asked.
KernelRequest deep_product() {
  return product("MatMul", {DType::kFloat32, {4, 256}}, {DType::kFloat32, {256, 8}},
                 {DType::kFloat32, {4, 8}});
}

class BlasLtCacheTest : public ::testing::Test {
 protected:
  // What a process does that multiplies once; the workspace of its kernel.
  std::size_t multiply(int candidates = 1) {
    Context context = device_context();
    context.cache_folder = folder_.path() + "/deeper/cache";
    context.timed_candidates = candidates;
    auto kernel = prepared(deep_product(), context);
    EXPECT_THAT(kernel, IsOk());
    return kernel.ok() ? (*kernel)->workspace_bytes() : 0;
  }
  std::string path() const {
    for (const auto& entry :
         std::filesystem::directory_iterator(folder_.path() + "/deeper/cache")) {
      return entry.path().string();
    }
    return {};
  }
  std::string content() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  void write(const std::string& text) const {
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << text;
  }
  // The second line, which parse_choices() compares.
  std::string device() const {
    const std::string text = content();
    const std::size_t begin = text.find('\n') + 1;
    return text.substr(begin, text.find('\n', begin) - begin);
  }

  test::TempDir folder_;
};

TEST_F(BlasLtCacheTest, IsNamedAfterDeviceAndLibrary) {
  multiply();
  EXPECT_EQ(std::filesystem::path(path()).filename().string(),
            "cublaslt-test-gpu-9.0-4-" + std::to_string(CUBLAS_VERSION) + ".txt");
  EXPECT_THAT(device(), HasSubstr("Test GPU 9.0"));
}

// Another choice than the library's first is put into the file: the next start takes it.
TEST_F(BlasLtCacheTest, TheNextStartTakesWhatWasChosen) {
  const std::size_t in_parts = multiply();
  ASSERT_GT(in_parts, 0U);
  const auto choices = parse_choices(content(), device());
  ASSERT_THAT(choices, IsOk());
  ASSERT_EQ(choices->size(), 1U);

  Context context = device_context();
  context.cache_folder = folder_.path() + "/other";
  KernelRequest shallow = deep_product();
  shallow.inputs[0].dims = {4, 8};
  shallow.inputs[1].dims = {8, 8};
  ASSERT_THAT(prepared(shallow, context), IsOk());
  context.blaslt.reset();  // writes its file
  std::ifstream other(folder_.path() + "/other/" +
                      std::filesystem::path(path()).filename().string());
  const std::string text((std::istreambuf_iterator<char>(other)), std::istreambuf_iterator<char>());
  const auto whole = parse_choices(text, device());
  ASSERT_THAT(whole, IsOk());
  BlasLtChoices exchanged = *choices;
  exchanged.begin()->second = whole->begin()->second;  // the algorithm that needs no workspace
  write(format_choices(device(), exchanged));
  EXPECT_EQ(multiply(), 0U);
}

TEST_F(BlasLtCacheTest, WhatTheLibraryDoesNotTakeIsChosenAnew) {
  const std::size_t expected = multiply();
  const std::string good = content();
  auto choices = parse_choices(good, device());
  ASSERT_THAT(choices, IsOk());
  choices->begin()->second.algorithm[1] ^= 77;
  write(format_choices(device(), *choices));
  EXPECT_EQ(multiply(), expected);
  EXPECT_EQ(content(), good);
}

TEST_F(BlasLtCacheTest, ABadFileIsWrittenAnew) {
  const std::size_t expected = multiply();
  const std::string good = content();
  for (const std::string& bad :
       {std::string(), std::string("mezzo"), good.substr(0, good.size() / 2),
        std::string(1 << 20, '\0'), good + good}) {
    write(bad);
    EXPECT_EQ(multiply(), expected);
    EXPECT_EQ(content(), good);
  }
}

TEST_F(BlasLtCacheTest, ProcessesAddToEachOthersChoices) {
  multiply();
  const std::string file = path();
  BlasLtCache first(folder_.path() + "/deeper/cache", device());
  BlasLtCache second(folder_.path() + "/deeper/cache", device());
  ASSERT_EQ(first.size(), 1U);
  first.add("a", {});
  second.add("b", {});
  EXPECT_THAT(first.save(), IsOk());
  EXPECT_THAT(second.save(), IsOk());
  const auto read = parse_choices(content(), device());
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->size(), 3U);
}

TEST_F(BlasLtCacheTest, WithoutAFolderNothingIsKept) {
  Context context = device_context();
  EXPECT_THAT(prepared(deep_product(), context), IsOk());
  context.cache_folder = "/proc/no/such/folder";
  context.blaslt.reset();
  EXPECT_THAT(prepared(deep_product(), context), IsOk());
}

TEST_F(BlasLtCacheTest, CandidatesAreTimedWhereAskedTo) {
  multiply();
  for (const int candidates : {3, 1, 2}) {  // what was timed before is good enough
    multiply(candidates);
    const auto choices = parse_choices(content(), device());
    ASSERT_THAT(choices, IsOk());
    ASSERT_EQ(choices->size(), 1U);
    EXPECT_EQ(choices->begin()->second.timed, 3U);
  }
}

}  // namespace
}  // namespace mezzo::kernels::cuda
