// What a program does when a file that it has mapped is cut short by another program: touching a
// page behind the new end raises SIGBUS, which would end the process in the middle of its work.
#pragma once

#include <cstddef>
#include <string_view>

namespace mezzo {

// For programs, not libraries: from now on such pages read as zeros and the damage is remembered.
// Nothing made from them may be kept: AtomicFile refuses to commit, and the program reports
// failure.
void guard_mappings();

// True once a guarded mapping was found cut short. Never false again.
bool mappings_damaged();

inline constexpr std::string_view kMappingDamage =
    "a file that was being read was shortened by another program meanwhile";

// Which pages are ours (MappedFile says so). `begin` is what mmap gave, `bytes` more than zero.
void watch_mapping(const void* begin, std::size_t bytes);
void unwatch_mapping(const void* begin);

}  // namespace mezzo
