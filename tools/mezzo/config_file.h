// Options from a JSON file: `--config run.json`.
//
// One object; keys are long option names without the dashes ("batch-size"). Values: a string or a
// number; true or false for flags; an array for options that can be repeated, of texts, or for
// "group" of objects: {"pattern": "^head", "lr": 0.01, "frozen": false}. What the command line says
// goes before the file.
#pragma once

#include <string>
#include <vector>

#include "compiler/support/status.h"

namespace CLI {
class App;
}

namespace mezzo::cli {

// `arguments` are those after the command's name; if --config is among them, the file's options are
// added. Nothing is known about the option's values here: the parser checks them as if they had
// been typed. InvalidArgument: the file cannot be read or is no such object, or names an option
// that `app` has not (with a suggestion).
Status add_config_file(const CLI::App& app, std::vector<std::string>& arguments);

}  // namespace mezzo::cli
