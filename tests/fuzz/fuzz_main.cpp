// What libFuzzer calls. MEZZO_FUZZ_TARGET is the target that this program tests.
#include <cstddef>
#include <cstdint>

#include "fuzz_target.h"
#include "proto_mutator.h"

extern "C" {

// libFuzzer's own mutations.
std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  mezzo::fuzz::MEZZO_FUZZ_TARGET.run(std::as_bytes(std::span(data, size)));
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                    unsigned seed) {
  const auto& target = mezzo::fuzz::MEZZO_FUZZ_TARGET;
  if (target.new_message == nullptr || seed % 4 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const auto message = target.new_message();
  if (!message->ParsePartialFromArray(data, static_cast<int>(size))) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  mezzo::fuzz::mutate_message(*message, seed / 4);
  const std::size_t bytes = message->ByteSizeLong();
  if (bytes > max_size || !message->SerializePartialToArray(data, static_cast<int>(bytes))) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  return bytes;
}

}  // extern "C"
