#include <nlohmann/json.hpp>

#include "compiler/report/report_json.h"
#include "compiler/support/json_util.h"

namespace mezzo {
namespace {

// Text inside <script type="application/json">: the only thing that could end the element is "<".
std::string script_text(const nlohmann::json& value) {
  std::string out;
  for (const char c : json_text(value)) {
    if (c == '<') out += "\\u003c";
    else out += c;
  }
  return out;
}

}  // namespace

std::string report_html(const Report& report) {
  return "<!doctype html><meta charset=\"utf-8\"><title>mezzo report</title><script type=\"application/json\" id=\"report\">" +
         script_text(report_to_json(report)) + "</script>";
}

}  // namespace mezzo
