// The parts of the page, made from the files in page/ when mezzo is built.
#pragma once

#include <string_view>

namespace mezzo {

// HTML with the places @STYLE@, @SUMMARY@, @DATA@ and @SCRIPT@, each there once, in this order.
extern const std::string_view kPageHtml;
extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;

}  // namespace mezzo
