// The page: hostile names stay text, and a real browser shows it without a complaint.

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>

#include "small_report.h"
#include "tests/support/temp_dir.h"

namespace mezzo {
namespace {

using test::small_report;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kHostileNames[] = {
    "</script><script>document.documentElement.dataset.injected='yes'</script>",
    "<!--<script>",
    "<img src=x onerror=\"document.documentElement.dataset.injected='yes'\">",
    "\"><svg onload=document.documentElement.dataset.injected='yes'>",
    "'; document.documentElement.dataset.injected='yes'; //",
    "@SCRIPT@ @DATA@ @SUMMARY@ ${x} \\u003c &lt; &amp;",
    "line\nbreak \xE2\x80\xA8 separator \xFF not UTF-8",
    "__proto__",
};

Report hostile_report() {
  Report report = small_report();
  Records& records = report.records;
  std::size_t i = 0;
  const auto next = [&] { return std::string(kHostileNames[i++ % std::size(kHostileNames)]); };
  records.model = next();
  records.target = next();
  records.precision = next();
  records.tool_version = next();
  for (NodeDecision& node : records.nodes) {
    node.node = next();
    node.op_type = next();
    node.domain = next();
    node.cause = next();
  }
  for (CastDecision& cast : records.casts) {
    cast.value = next();
    cast.producer = next();
    cast.consumers = {next(), next()};
    cast.cause = next();
  }
  records.warnings.assign(std::begin(kHostileNames), std::end(kHostileNames));
  records.pads = records.warnings;
  records.policy = {{next(), next()}};
  records.cost.method = next();
  records.calibration = test::small_calibration();
  records.calibration->sources = {next(), next()};
  records.calibration->worst_output = next();
  for (MeasuredTensor& tensor : records.calibration->near_limit) {
    tensor.tensor = next();
    tensor.scope = next();
    tensor.note = next();
  }
  for (CalibrationChange& change : records.calibration->changes) {
    change.node = next();
    change.op_type = next();
  }
  for (DrawnNode& node : report.drawn) {
    node.name = next();
    node.op_type = next();
    node.type = next();
    node.dtype = node.dtype.empty() ? "" : next();
  }
  for (ReportEdge& edge : report.edges) {
    edge.value = next();
    edge.type = next();
  }
  return report;
}

std::size_t count(const std::string& text, std::string_view wanted) {
  std::size_t found = 0;
  for (std::size_t at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at + 1))
    ++found;
  return found;
}

TEST(Page, LoadsNothing) {
  const std::string page = report_html(small_report());
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* loader : {"http://", "https://", "<link", "@import", "src=", "url("}) {
    EXPECT_THAT(page, Not(HasSubstr(loader)));
  }
}

TEST(Page, HostileNamesAddNoMarkup) {
  const std::string plain = report_html(small_report()), hostile = report_html(hostile_report());
  for (const char* markup : {"<script", "</script", "<img", "<svg", "<!--"}) {
    EXPECT_EQ(count(hostile, markup), count(plain, markup)) << markup;
  }
  EXPECT_THAT(hostile, HasSubstr("\\u003c/script>"));
}

// ---------------------------------------------------------------------------------------------
// With a browser.

std::optional<std::string> find_browser() {
  if (const char* named = std::getenv("MEZZO_CHROMIUM"); named != nullptr) return named;
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
    for (const char* folder : {"/usr/bin/", "/usr/local/bin/", "/snap/bin/"}) {
      if (access((std::string(folder) + name).c_str(), X_OK) == 0)
        return std::string(folder) + name;
    }
  }
  return std::nullopt;
}

std::string run(const std::string& command) {
  std::string output;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return output;
  std::array<char, 4096> buffer{};
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe))
    output.append(buffer.data(), got);
  pclose(pipe);
  return output;
}

class PageInBrowser : public testing::Test {
 protected:
  void SetUp() override {
    browser_ = find_browser();
    if (!browser_) GTEST_SKIP() << "no Chromium here: install chromium, or set MEZZO_CHROMIUM";
  }

  std::string command(const std::string& page, const std::string& fragment,
                      const std::string& what) {
    test::write_text(dir_.file("page.html"), page);
    const std::string sandbox = geteuid() == 0 ? " --no-sandbox" : "";
    return "timeout 100 " + *browser_ + " --headless=new --disable-gpu" + sandbox +
           " --user-data-dir=" + dir_.file("profile") +
           " --window-size=1400,1800 --virtual-time-budget=5000 --enable-logging=stderr " + what +
           " 'file://" + dir_.file("page.html") + fragment + "' 2>" + dir_.file("log");
  }

  // The document after the scripts ran. Anything in the console fails the test.
  std::string dom(const std::string& page, const std::string& fragment = "") {
    const std::string found = run(command(page, fragment, "--dump-dom"));
    EXPECT_EQ(console(), "");
    return found;
  }

  // What the page said in the console: errors and warnings, the policy's complaints included.
  std::string console() const {
    std::istringstream log(test::read_text(dir_.file("log")));
    std::string said;
    for (std::string line; std::getline(log, line);) {
      if (line.find("CONSOLE") != std::string::npos) said += line + "\n";
    }
    return said;
  }

  test::TempDir dir_;
  std::optional<std::string> browser_;
};

// The page with a script that acts as a user would; results go into data-result.
std::string with_actions(std::string page, const std::string& script) {
  const std::string end = "</body>";
  return page.replace(
      page.rfind(end), end.size(),
      "<script>{const set = (text) => document.documentElement.dataset.result = text;" + script +
          "}</script></body>");
}

TEST_F(PageInBrowser, TheConsoleIsWatched) {
  run(command("<script>throw new Error('on purpose')</script>", "", "--dump-dom"));
  EXPECT_THAT(console(), HasSubstr("on purpose"));
}

TEST_F(PageInBrowser, Renders) {
  const std::string found = dom(report_html(small_report()));
  EXPECT_THAT(found, HasSubstr("data-rendered=\"9\""));
  EXPECT_THAT(found, HasSubstr("75.0%"));
  EXPECT_THAT(found, HasSubstr("small.onnx"));
  EXPECT_THAT(found, HasSubstr("allow: MatMul accumulates in FP32"));
  EXPECT_THAT(found, HasSubstr("opset 17 is old"));
  EXPECT_THAT(found, HasSubstr("<b>default, this one</b>"));
  EXPECT_THAT(found, HasSubstr("<span>inference</span>"));
}

TEST_F(PageInBrowser, AReportWithoutAGraphRenders) {
  Report report;
  EXPECT_THAT(dom(report_html(report)), HasSubstr("data-rendered=\"0\""));
  report.records = test::small_records();
  report.totals = sum_totals(report.records);
  EXPECT_THAT(dom(report_html(report)), HasSubstr("data-rendered=\"0\""));
}

TEST_F(PageInBrowser, HostileNamesDoNothing) {
  const std::string found = dom(with_actions(report_html(hostile_report()), R"(
    for (const row of document.querySelectorAll('#table tbody button')) row.click();
    const input = document.getElementById('search');
    input.value = 'o';
    input.dispatchEvent(new Event('input'));
    set(`${document.querySelectorAll('img, svg').length} of ${document.querySelectorAll('script').length}`);)"));
  EXPECT_THAT(found, HasSubstr("data-rendered=\"9\""));
  EXPECT_THAT(found, Not(HasSubstr("data-injected=\"yes\"")));
  EXPECT_THAT(found, HasSubstr("data-result=\"0 of 3\"")) << "data, page, and this test's script";
}

TEST_F(PageInBrowser, TheAddressSelectsANode) {
  const std::string found = dom(report_html(small_report()), "#node=softmax");
  const std::size_t panel = found.find("id=\"details\"");
  ASSERT_NE(panel, std::string::npos);
  const std::string shown = found.substr(panel, found.find("</aside>", panel) - panel);
  EXPECT_THAT(shown, HasSubstr("softmax is pinned to FP32"));
  EXPECT_THAT(shown, HasSubstr("to_fp32"));
}

TEST_F(PageInBrowser, TheAddressSelectsACastThatIsNotDrawn) {
  const std::string found = dom(report_html(small_report()), "#cast=w");
  EXPECT_THAT(found, HasSubstr("Stored low"));
  EXPECT_THAT(found, HasSubstr("nothing at run time"));
}

TEST_F(PageInBrowser, SearchFindsATensorAndSelectsItsMaker) {
  const std::string found = dom(with_actions(report_html(small_report()), R"(
    const input = document.getElementById('search');
    input.value = 'r_fp32';
    input.dispatchEvent(new Event('input'));
    input.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter'}));
    set(document.querySelector('#details .mono').textContent);)"));
  EXPECT_THAT(found, HasSubstr("data-result=\"to_fp32\""));
}

TEST_F(PageInBrowser, TablesSortAndFilter) {
  const std::string found = dom(with_actions(report_html(small_report()), R"(
    const names = () => [...document.querySelectorAll('#table tbody tr td:first-child')].map((cell) => cell.textContent).join(' ');
    document.querySelectorAll('#table thead button')[5].click();
    const sorted = names();
    const filter = document.getElementById('filter-rule');
    filter.value = 'pin';
    filter.dispatchEvent(new Event('input'));
    set(`${sorted} | ${names()}`);)"));
  EXPECT_THAT(found, HasSubstr("data-result=\"matmul softmax mul relu scale gone | softmax\""));
}

TEST_F(PageInBrowser, KeysWalkAlongEdges) {
  const std::string found = dom(with_actions(report_html(small_report()), R"(
    const canvas = document.getElementById('canvas');
    for (const key of ['Home', 'ArrowDown', 'ArrowDown']) canvas.dispatchEvent(new KeyboardEvent('keydown', {key}));
    set(document.querySelector('#details .mono').textContent);)"));
  EXPECT_THAT(found, HasSubstr("data-result=\"matmul\""));
}

TEST_F(PageInBrowser, AClickSelectsWhatIsDrawnThere) {
  const std::string found = dom(with_actions(report_html(small_report()), R"(
    const canvas = document.getElementById('canvas'), area = canvas.getBoundingClientRect();
    canvas.setPointerCapture = () => {};  // wants a real pointer
    const seen = new Set();
    for (let y = 0; y < area.height; y += 14) {
      for (let x = 0; x < area.width; x += 40) {
        for (const type of ['pointerdown', 'pointerup']) {
          canvas.dispatchEvent(new PointerEvent(type, {pointerId: 1, clientX: area.left + x, clientY: area.top + y}));
        }
        const name = document.querySelector('#details .title + .mono');
        if (name) seen.add(name.textContent);
      }
    }
    set([...seen].sort().join(' '));)"));
  EXPECT_THAT(found,
              HasSubstr("data-result=\"labels matmul mul relu softmax to_fp32 to_low x y\""));
}

TEST_F(PageInBrowser, DrawsAPicture) {
  const std::string picture = dir_.file("page.png");
  run(command(report_html(small_report()), "", "--screenshot=" + picture));
  EXPECT_EQ(console(), "");
  EXPECT_GT(std::filesystem::file_size(picture), 20000u) << "an empty page compresses to less";
}

}  // namespace
}  // namespace mezzo
