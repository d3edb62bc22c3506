// What this process occupies, as the kernel counts it.
#pragma once

#include <cstdint>

namespace mezzo::cli {

// Resident memory of this process. Pages of program code and mapped files count apart: libraries
// fault theirs in while they run, which is no memory of the computation's.
struct ResidentBytes {
  std::uint64_t total = 0;
  std::uint64_t of_files = 0;  // part of total
};

// Now; zeros where the system does not say.
ResidentBytes resident_bytes();

// The highest total since the process started, or since reset_peak_resident().
std::uint64_t peak_resident_bytes();

// Lets peak_resident_bytes() start again from here. Has no effect where the kernel forbids it.
void reset_peak_resident();

// How far the peak rose above `before`, pages of files left out. Exact while no page of a file has
// been given back since; else the files' part counts for less.
std::uint64_t peak_growth_bytes(const ResidentBytes& before);

}  // namespace mezzo::cli
