#pragma once

namespace mezzo::test {

// False, with a message on standard error, where the device could not be opened.
bool sessions_are_on_device();

}  // namespace mezzo::test
