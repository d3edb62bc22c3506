// Trainings of the recorded references on the GPU, judged by their bands.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace mezzo::gpu {

struct Check {
  std::string mezzo;   // the program
  std::string folder;  // what came along: refs/, networks/
  std::string work;    // for files of the runs
  double deadline_s;   // of the whole check, on the clock of `now_s()`
};

double now_s();

// One entry per run: reference, precision, whether loss and gradient norm stayed inside the band of
// every step, the worst of either in units of its band, what was skipped, seconds; `ok`.
nlohmann::json check_references(const Check& check);

}  // namespace mezzo::gpu
