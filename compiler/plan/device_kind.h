// For which device a plan is made.
//
// Every plan runs on every device: the choice only says which form costs least there (layouts,
// fused operators).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace mezzo {

enum class DeviceKind : std::uint8_t { kCpu, kCuda };

// As on the command line and in a plan's `target`, by the enum's number.
inline constexpr std::array<std::string_view, 2> kDeviceWords = {"cpu", "cuda"};

constexpr std::string_view device_word(DeviceKind device) {
  return kDeviceWords[static_cast<std::size_t>(device)];
}
// REQUIRES: one of kDeviceWords; others count as the CPU.
constexpr DeviceKind device_of(std::string_view word) {
  return word == device_word(DeviceKind::kCuda) ? DeviceKind::kCuda : DeviceKind::kCpu;
}

}  // namespace mezzo
