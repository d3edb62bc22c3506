// A case of a pass: a file in ONNX's text syntax whose comments say how to run it and what must
// come out.
//
//   # RUN: mezzo opt --passes=a,b --precision=fp16
//   # What the case is about.
//   <ir_version: 10, opset_import: ["" : 21]>
//   g (float[2] x) => (float[2] y) { y = Relu (x) }
//   # CHECK:
//   # <
//   # ...           the whole text that `mezzo opt` prints, each line behind "# "
//
// or, where the passes must refuse, "# FAILS: what the message contains" instead of CHECK. All of
// it stays valid input of `mezzo opt`. tools/update_checks writes the CHECK part.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"
#include "passes/pass.h"
#include "passes/pipeline.h"
#include "tools/mezzo/opt_options.h"

namespace mezzo::test {

struct PassCase {
  std::string path;
  std::string command;   // behind "mezzo opt"
  std::string text;      // the whole file
  std::string expected;  // without the "# "
  std::string fails;     // "" if it must succeed
};

// All *.onnxtxt files below `folder`, sorted by path.
std::vector<std::string> case_files(const std::string& folder);
StatusOr<PassCase> read_case(const std::string& path);

// The options of a command line, as `mezzo opt` reads them.
StatusOr<cli::OptOptions> parse_options(const std::string& command);

// What `mezzo opt` prints for the case.
StatusOr<std::string> run_case(const PassCase& test);

// ONNX's printer ends some lines with a blank; the files do not hold them.
std::string without_trailing_blanks(const std::string& text);

// Runs named passes on a model, with the context given.
Status run_named(Model& model, passes::PassContext& ctx, const std::string& names);

}  // namespace mezzo::test
