#include "tools/mezzo/config_file.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "compiler/support/json_util.h"
#include "compiler/support/text.h"

namespace mezzo::cli {
namespace {

using nlohmann::json;

constexpr std::string_view kConfig = "--config";

bool is_given(const std::vector<std::string>& arguments, const std::string& option) {
  return std::any_of(arguments.begin(), arguments.end(), [&](const std::string& argument) {
    return argument == option || argument.rfind(option + "=", 0) == 0;
  });
}

// The value of the last --config, "FILE" for "--config FILE" and "--config=FILE".
std::optional<std::string> config_path(const std::vector<std::string>& arguments) {
  std::optional<std::string> path;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == kConfig && i + 1 < arguments.size()) path = arguments[i + 1];
    if (arguments[i].rfind("--config=", 0) == 0) path = arguments[i].substr(kConfig.size() + 1);
  }
  return path;
}

bool is_scalar_value(const json& value) { return value.is_string() || value.is_number(); }

std::string value_text(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// {"pattern": "^bn", "lr": 0.1, "betas": [0.9, 0.99], "frozen": true} as --group takes it,
// "^bn:betas=0.9,0.99,frozen=true,lr=0.1"; nothing where it is no such object.
std::optional<std::string> group_text(const json& value) {
  if (!value.is_object() || !value.contains("pattern") || !value["pattern"].is_string())
    return std::nullopt;
  std::string settings;
  for (const auto& [key, setting] : value.items()) {
    if (key == "pattern") continue;
    std::string text;
    if (setting.is_array()) {
      for (const json& element : setting) {
        if (!element.is_number()) return std::nullopt;
        text += (text.empty() ? "" : ",") + element.dump();
      }
    } else if (is_scalar_value(setting)) {
      text = value_text(setting);
    } else if (setting.is_boolean()) {
      text = setting.get<bool>() ? "true" : "false";
    } else {
      return std::nullopt;
    }
    settings.append(settings.empty() ? "" : ",").append(key).append("=").append(text);
  }
  return value["pattern"].get<std::string>() + ":" + settings;
}

class ConfigReader {
 public:
  ConfigReader(const CLI::App& app, std::vector<std::string>& arguments, std::string path)
      : app_(app), arguments_(arguments), given_(arguments), path_(std::move(path)) {}

  Status add_all(const json& config) {
    if (!config.is_object()) {
      return invalid_argument(printable(path_) +
                              ": expected a JSON object of options, such as {\"lr\": 0.1}");
    }
    for (const auto& [key, value] : config.items()) {
      const CLI::Option* option = find(key);
      if (option == nullptr) return unknown(key);
      if (is_overruled(*option)) continue;
      MEZZO_RETURN_IF_ERROR(add(key, *option, value));
    }
    return ok_status();
  }

 private:
  const CLI::Option* find(const std::string& key) const {
    if (key.empty() || key == "config" || key == "help") return nullptr;
    for (const CLI::Option* option : app_.get_options()) {
      if (option->check_lname(key)) return option;
    }
    return nullptr;
  }

  Status unknown(const std::string& key) const {
    std::vector<std::string> names;
    for (const CLI::Option* option : app_.get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back(name);
    }
    return invalid_argument(printable(path_) + ": unknown option '" + printable(key) + "'." +
                            did_you_mean(key, names) + " Hint: `mezzo " + app_.get_name() +
                            " --help` lists them; keys are written without dashes");
  }

  // Given on the command line, it or an option that excludes it (--steps and --epochs).
  bool is_overruled(const CLI::Option& option) const {
    const auto given = [&](const CLI::Option* o) {
      const auto& names = o->get_lnames();
      return std::any_of(names.begin(), names.end(),
                         [&](const std::string& name) { return is_given(given_, "--" + name); });
    };
    const auto& excluded = option.get_excludes();
    return given(&option) || std::any_of(excluded.begin(), excluded.end(), given);
  }

  Status add(const std::string& key, const CLI::Option& option, const json& value) {
    const bool flag = option.get_expected_max() == 0;
    const bool repeats = option.get_expected_max() > 1;
    if (flag ? value.is_boolean() : is_scalar_value(value)) {
      if (!flag) add_value(key, value);
      if (flag && value.get<bool>()) arguments_.push_back("--" + key);
      return ok_status();
    }
    if (repeats && value.is_array() && std::all_of(value.begin(), value.end(), is_scalar_value)) {
      for (const json& element : value) add_value(key, element);
      return ok_status();
    }
    if (key == "group" && value.is_array()) {
      for (const json& element : value) {
        const std::optional<std::string> text =
            is_scalar_value(element) ? value_text(element) : group_text(element);
        if (!text) return bad_group(element);
        add_value(key, *text);
      }
      return ok_status();
    }
    return invalid_argument(printable(path_) + ": option '" + key + "': expected " +
                            (flag      ? "true or false"
                             : repeats ? "text, a number or an array of them"
                                       : "text or a number") +
                            ", got " + printable(json_text(value), 60));
  }

  Status bad_group(const json& element) const {
    return invalid_argument(printable(path_) +
                            ": option 'group': expected objects such as {\"pattern\": \"^head\", "
                            "\"lr\": 0.01}, got " +
                            printable(json_text(element), 60));
  }

  // "--name=value", so that a value may begin with a dash.
  void add_value(const std::string& key, const json& value) {
    arguments_.push_back("--" + key + "=" + value_text(value));
  }

  const CLI::App& app_;
  std::vector<std::string>& arguments_;
  const std::vector<std::string> given_;
  std::string path_;
};

}  // namespace

Status add_config_file(const CLI::App& app, std::vector<std::string>& arguments) {
  if (app.get_option_no_throw(std::string(kConfig)) == nullptr) return ok_status();
  const std::optional<std::string> path = config_path(arguments);
  if (!path) return ok_status();
  MEZZO_ASSIGN_OR_RETURN(const json config, read_json(*path));
  return ConfigReader(app, arguments, *path).add_all(config);
}

}  // namespace mezzo::cli
