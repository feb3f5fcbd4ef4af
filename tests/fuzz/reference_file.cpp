// compare --reference: a TOML list of values with their tolerances.

#include <cmath>

#include "record/reference.h"
#include "tests/fuzz/fuzz.h"

using namespace paceline;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  fuzz::accepted([&] {
    for (const ReferenceValue& value : read_reference(file.path())) {
      fuzz::require(std::isfinite(value.value) && value.tolerance >= 0);
      fuzz::require(!value.factors.factors().empty());
    }
  });
  return 0;
}
