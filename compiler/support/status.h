// Status and StatusOr<T>: how every room reports what went wrong.
//
// An error says where, what, expected, got and what to do next:
//   resnet18.onnx: node 'conv1' (Conv), operand 1 'w': expected rank 4, got 2. Hint: ...
// Three kinds exist (see StatusCode); the command line maps them to exit status 1, usage errors
// to 2. No exception crosses a room's border: code that calls a throwing library catches at the
// call.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace mezzo {

enum class StatusCode {
  kOk,
  kInvalidArgument,  // the user's model, data or option is wrong
  kUnimplemented,    // valid, but not supported here; the message lists what is
  kInternal,         // our bug
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // The same error with "`where`: " in front, so that outer layers add what they know.
  Status with_context(std::string_view where) const {
    return ok() ? *this : Status(code_, std::string(where) + ": " + message_);
  }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status ok_status() { return {}; }
inline Status invalid_argument(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
}
inline Status unimplemented(std::string message) {
  return {StatusCode::kUnimplemented, std::move(message)};
}
inline Status internal_error(std::string message) {
  return {StatusCode::kInternal, std::move(message)};
}

// A T, or the reason there is none. REQUIRES: ok() before value(), *, ->.
template <typename T>
class [[nodiscard]] StatusOr {
 public:
  StatusOr(T value) : value_(std::move(value)) {}
  StatusOr(Status status) : status_(std::move(status)) {
    if (status_.ok()) std::abort();
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return *std::move(value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace mezzo

// Leaves the function with the error, if there is one. The only macros of the project: C++20 has
// no other way to return from the caller.
#define MEZZO_RETURN_IF_ERROR(expression)                                          \
  do {                                                                             \
    if (auto mezzo_status = (expression); !mezzo_status.ok()) return mezzo_status; \
  } while (false)

// MEZZO_ASSIGN_OR_RETURN(auto x, f()): x takes f()'s value, or the function returns f()'s error.
#define MEZZO_ASSIGN_OR_RETURN(target, expression) \
  MEZZO_ASSIGN_OR_RETURN_IMPL(MEZZO_CONCAT(mezzo_or_, __LINE__), target, expression)
#define MEZZO_CONCAT(a, b) MEZZO_CONCAT_IMPL(a, b)
#define MEZZO_CONCAT_IMPL(a, b) a##b
#define MEZZO_ASSIGN_OR_RETURN_IMPL(temporary, target, expression) \
  auto temporary = (expression);                                   \
  if (!temporary.ok()) return temporary.status();                  \
  target = std::move(temporary).value()
