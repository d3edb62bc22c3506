// Reading recorded runs, and comparing with them.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/io/npz.h"
#include "tests/support/status_test.h"

namespace mezzo::test {

inline nlohmann::json read_json_file(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
}

// An array of an npz, which must hold float32.
inline std::vector<float> floats_of(const runtime::NpzFile& file, const std::string& name) {
  const runtime::ArrayInfo* info = value_or_die(file.get(name));
  EXPECT_EQ(info->dtype, DType::kFloat32) << name;
  const runtime::ArrayData data = value_or_die(file.read(name));
  const auto* values = reinterpret_cast<const float*>(data.bytes.data());
  return {values, values + info->elems};
}

}  // namespace mezzo::test
