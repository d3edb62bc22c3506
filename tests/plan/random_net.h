// Models for tests of passes that look at networks of images as a whole.
#pragma once

#include <cstdint>
#include <string>

namespace mezzo::test {

// The text of a model: chains of random operators over a few images, whose results read one
// another. `training`: its output is a loss.
std::string random_image_net(std::uint32_t seed, bool training = false);

}  // namespace mezzo::test
