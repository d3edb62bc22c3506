// Checks of Status and StatusOr in tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "compiler/support/status.h"

namespace mezzo::test {

inline const Status& status_of(const Status& status) { return status; }
template <typename T>
const Status& status_of(const StatusOr<T>& value) {
  return value.status();
}

// EXPECT_THAT(f(), IsOk());
MATCHER(IsOk, "is ok") {
  *result_listener << status_of(arg).message();
  return status_of(arg).ok();
}

// EXPECT_THAT(f(), FailsWith(StatusCode::kInvalidArgument, HasSubstr("...")));
MATCHER_P2(FailsWith, code, message, "fails with the code and a message that fits") {
  const Status& status = status_of(arg);
  *result_listener << (status.ok() ? std::string("is ok") : status.message());
  return !status.ok() && status.code() == code &&
         testing::ExplainMatchResult(message, status.message(), result_listener);
}

// EXPECT_THAT(f(), Rejects("truncated")): InvalidArgument with this text in the message.
inline auto Rejects(const std::string& text) {
  return FailsWith(StatusCode::kInvalidArgument, testing::HasSubstr(text));
}

// The value of a StatusOr that must be ok; aborts the test program with the message otherwise.
template <typename T>
T value_or_die(StatusOr<T> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "unexpected error: %s\n", value.status().message().c_str());
    std::abort();
  }
  return std::move(value).value();
}

}  // namespace mezzo::test
