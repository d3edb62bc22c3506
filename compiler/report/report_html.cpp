// The page: the report as JSON, where the nodes stand, and the scripts that show both.
//
// Everything from the model reaches the page in two ways only: as JSON in a script element of a
// type that no browser runs, and as escaped text where scripts are off. The scripts put names into
// text nodes and attributes, never into markup.

#include <cmath>
#include <nlohmann/json.hpp>

#include "compiler/report/layout.h"
#include "compiler/report/page_assets.h"
#include "compiler/report/report_json.h"
#include "compiler/support/json_util.h"

namespace mezzo {
namespace {

using nlohmann::json;

// Text inside <script type="application/json">. "<" could end the element or open a comment in
// which an end tag means nothing; JSON allows it in strings only, where it may be spelled so.
std::string script_text(const json& value) {
  std::string out;
  for (const char c : json_text(value)) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      default: out += c;
    }
  }
  return out;
}

long pixels(double value) { return std::lround(value); }

json layout_json(const Layout& layout) {
  json boxes = json::array(), bends = json::array(), far = json::array();
  for (const Layout::Box& box : layout.boxes) {
    boxes.push_back({pixels(box.x), pixels(box.y), pixels(box.width), pixels(box.height)});
  }
  for (std::size_t i = 0; i < layout.bends.size(); ++i) {
    json points = json::array();
    for (const Layout::Point& point : layout.bends[i]) {
      points.push_back(pixels(point.x));
      points.push_back(pixels(point.y));
    }
    bends.push_back(std::move(points));
    if (layout.far[i]) far.push_back(i);
  }
  return {{"width", pixels(layout.width)},
          {"height", pixels(layout.height)},
          {"boxes", std::move(boxes)},
          {"bends", std::move(bends)},
          {"far", std::move(far)}};
}

}  // namespace

std::string report_html(const Report& report) {
  json data = report_to_json(report);
  data["layout"] = layout_json(make_layout(report.drawn, report.edges));
  const std::pair<std::string_view, std::string> parts[] = {
      {"@STYLE@", std::string(kPageStyle)},
      {"@SUMMARY@", escaped(report_totals(report))},
      {"@DATA@", script_text(data)},
      {"@SCRIPT@", std::string(kPageScript)}};
  std::string page;
  std::string_view rest = kPageHtml;
  for (const auto& [place, text] : parts) {
    const std::size_t at = rest.find(place);
    if (at == std::string_view::npos) continue;
    page.append(rest.substr(0, at)).append(text);
    rest.remove_prefix(at + place.size());
  }
  return page.append(rest);
}

}  // namespace mezzo
