// Names in messages.
#pragma once

#include <string>
#include <string_view>

#include "compiler/support/text.h"

namespace mezzo {

// 'name', with what cannot be printed escaped.
inline std::string in_quotes(std::string_view name) { return "'" + printable(name) + "'"; }

}  // namespace mezzo
