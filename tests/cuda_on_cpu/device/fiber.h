// A stack of its own that can be left in the middle of a function and continued later, by one and
// the same thread of the operating system. AddressSanitizer is told of every switch.
#pragma once

#include <cstddef>

namespace cuda_on_cpu {

class Fiber {
 public:
  // The stack that the caller runs on.
  Fiber() = default;
  // Runs `entry` when it is first continued; `entry` never returns.
  explicit Fiber(void (*entry)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Leaves `from`, which must be running, and continues `to`; returns when `from` is continued.
  static void change(Fiber& from, Fiber& to);
  // The first thing that `entry` calls.
  static void begin(Fiber& self);
  // Forgets what was running on it: `entry` will begin anew.
  void reset();

 private:
  void prepare();
  void arrived();

  void (*entry_)() = nullptr;
  char* stack_ = nullptr;  // lowest address that is in use
  std::size_t stack_bytes_ = 0;
  void* saved_ = nullptr;       // stack pointer, or a ucontext_t
  void* fake_stack_ = nullptr;  // AddressSanitizer's
};

}  // namespace cuda_on_cpu
