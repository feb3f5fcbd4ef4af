// Option values: sizes, numbers, and ranges and lists of them.

#include <array>
#include <limits>

#include "core/units.h"
#include "harness/option_parser.h"
#include "measure/value_range.h"
#include "tests/fuzz/fuzz.h"

using namespace paceline;

namespace {

constexpr std::array<Range, 3> ranges = {{{1, 1 << 14}, {0, 9e15}, {-1e300, 1e300}}};
constexpr std::array types = {ValueType::integer, ValueType::real, ValueType::size,
                              ValueType::text};

// Every value of an accepted range must itself be an accepted value of the option.
void read_value(const std::string& text, ValueType type, const Range& range) {
  for (const std::string& value : values_of_range(text, type, range)) {
    if (type == ValueType::real) (void)parse_real(value, range.least, range.most);
    if (type == ValueType::size) fuzz::require(parse_bytes(value) >= 0);
    if (type == ValueType::integer) {
      (void)parse_integer(value, static_cast<std::int64_t>(range.least),
                          static_cast<std::int64_t>(range.most));
    }
  }
}

}  // namespace

// The first byte selects the type and the limits; the other bytes are the text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const ValueType type = types[data[0] % types.size()];
  const Range range = ranges[data[0] / types.size() % (type == ValueType::integer ? 2 : 3)];
  const std::string text(fuzz::text_of(data + 1, size - 1));
  fuzz::accepted([&] {
    for (const std::string& part : OptionParser::split({text})) read_value(part, type, range);
  });
  return 0;
}
