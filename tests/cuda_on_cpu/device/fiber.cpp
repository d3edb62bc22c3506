#include "tests/cuda_on_cpu/device/fiber.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

#include "tests/support/sanitizers.h"

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if MEZZO_WITH_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace cuda_on_cpu {
namespace {

constexpr std::size_t kPage = 4096;
// AddressSanitizer surrounds every local array.
#if MEZZO_WITH_ASAN
constexpr std::size_t kStackBytes = 256 << 10;
#else
constexpr std::size_t kStackBytes = 64 << 10;
#endif

// The fiber that is being left, for the one that is continued. A thread's own.
thread_local Fiber* leaving = nullptr;

}  // namespace

#if defined(__x86_64__)
// Saves what a function must keep on the stack, and takes it from another one. Eleven times as fast
// as swapcontext, which makes a system call for the signal mask.
extern "C" void cuda_on_cpu_change_stack(void** from, void* to);
asm(R"(
.text
.globl cuda_on_cpu_change_stack
.hidden cuda_on_cpu_change_stack
.type cuda_on_cpu_change_stack,@function
cuda_on_cpu_change_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size cuda_on_cpu_change_stack, .-cuda_on_cpu_change_stack
)");

void Fiber::prepare() {
  constexpr int kSavedRegisters = 6;
  auto** top = reinterpret_cast<void**>(stack_ + stack_bytes_);
  *--top = nullptr;  // where a call would have left its return address
  *--top = reinterpret_cast<void*>(entry_);
  for (int i = 0; i < kSavedRegisters; ++i) *--top = nullptr;
  saved_ = top;
}

static void change_stack(void** from, void* to) { cuda_on_cpu_change_stack(from, to); }
#else
void Fiber::prepare() {
  if (saved_ == nullptr) saved_ = new ucontext_t;
  auto* context = static_cast<ucontext_t*>(saved_);
  getcontext(context);
  context->uc_stack.ss_sp = stack_;
  context->uc_stack.ss_size = stack_bytes_;
  context->uc_link = nullptr;
  makecontext(context, entry_, 0);
}

static void change_stack(void** from, void* to) {
  if (*from == nullptr) *from = new ucontext_t;
  swapcontext(static_cast<ucontext_t*>(*from), static_cast<ucontext_t*>(to));
}
#endif

Fiber::Fiber(void (*entry)()) : entry_(entry), stack_bytes_(kStackBytes) {
  void* const memory = mmap(nullptr, kStackBytes + kPage, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, kPage, PROT_NONE) != 0) {
    std::perror("cuda_on_cpu: no memory for the stack of a thread");
    std::abort();
  }
  stack_ = static_cast<char*>(memory) + kPage;
  prepare();
}

Fiber::~Fiber() {
  if (entry_ == nullptr) return;
  reset();  // no trace of its frames is left to whoever gets the memory
  munmap(stack_ - kPage, stack_bytes_ + kPage);
#if !defined(__x86_64__)
  delete static_cast<ucontext_t*>(saved_);
#endif
}

void Fiber::reset() {
#if MEZZO_WITH_ASAN
  __asan_unpoison_memory_region(stack_, stack_bytes_);
#endif
  fake_stack_ = nullptr;
  prepare();
}

void Fiber::change(Fiber& from, Fiber& to) {
  leaving = &from;
#if MEZZO_WITH_ASAN
  __sanitizer_start_switch_fiber(&from.fake_stack_, to.stack_, to.stack_bytes_);
#endif
  change_stack(&from.saved_, to.saved_);
  from.arrived();
}

void Fiber::begin(Fiber& self) { self.arrived(); }

void Fiber::arrived() {
#if MEZZO_WITH_ASAN
  const void* stack = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(fake_stack_, &stack, &bytes);
  if (leaving->stack_ == nullptr) {  // the thread's own, whose place is known only now
    leaving->stack_ = static_cast<char*>(const_cast<void*>(stack));
    leaving->stack_bytes_ = bytes;
  }
#endif
}

}  // namespace cuda_on_cpu
