// What most sources include, compiled once for all of them. Each source still includes what it uses:
// lint compiles every folder without this file.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
