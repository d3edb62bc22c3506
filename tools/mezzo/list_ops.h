// What `mezzo train --list-ops` prints.
#pragma once

#include <string>

namespace mezzo::cli {

enum class ListForm { kText, kJson };

// Every operator of the catalogue with how it is differentiated, or why it is not.
std::string list_ops(ListForm form);

}  // namespace mezzo::cli
