# Writes OUTPUT, a C++ file that holds the presets/*.json below PRESETS as string literals; see
# policy_file.h.
file(GLOB files ${PRESETS}/*.json)
list(SORT files)
set(rows "")
foreach(file IN LISTS files)
  file(READ ${file} text)
  cmake_path(GET file STEM LAST_ONLY name)
  string(APPEND rows "    {\"${name}\", R\"~json~(${text})~json~\"},\n")
endforeach()
file(WRITE ${OUTPUT} "// Made by embed_presets.cmake.
#include \"passes/precision/policy_file.h\"

namespace mezzo::passes {
namespace {

constexpr Preset kPresets[] = {
${rows}};

}  // namespace

std::span<const Preset> presets() { return kPresets; }

}  // namespace mezzo::passes
")
