// Are the files that a command writes different from those it reads, and from one another?
#pragma once

#include <string>
#include <vector>

#include "compiler/support/status.h"

namespace mezzo::cli {

// A file and what the command line calls it: "--json", "the input".
struct NamedFile {
  std::string name;
  std::string path;  // "": not written, or not known
};

// InvalidArgument, naming both, where a file of `written` is one of `others` or a later one of
// `written`, whatever the paths are spelled like.
Status expect_different(const std::vector<NamedFile>& written, std::vector<NamedFile> others);

// What the model is read from, under one name.
std::vector<NamedFile> sources(const std::string& model,
                               const std::vector<std::string>& data_files);

}  // namespace mezzo::cli
