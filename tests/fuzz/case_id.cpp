// Case::id is a plain file name for any factors, and cases have equal ids if and only if their
// factors are equal.

#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <vector>

#include "measure/case.h"
#include "tests/fuzz/fuzz.h"

using namespace paceline;

namespace {

// Text up to the first zero byte, as in a command-line argument.
std::string text_from(FuzzedDataProvider& bytes) {
  constexpr std::size_t longest = 300;
  return bytes.ConsumeRandomLengthString(longest).c_str();
}

Value value_from(FuzzedDataProvider& bytes) {
  switch (bytes.ConsumeIntegralInRange(0, 3)) {
    case 0: return bytes.ConsumeIntegral<std::int64_t>();
    case 1: return bytes.ConsumeFloatingPoint<double>();
    case 2: return bytes.ConsumeBool();
    default: return text_from(bytes);
  }
}

Case case_from(FuzzedDataProvider& bytes, std::vector<std::string>& names) {
  Case factors;
  for (int left = bytes.ConsumeIntegralInRange(0, 5); left > 0; --left) {
    names.push_back(text_from(bytes));
    factors.set(names.back(), value_from(bytes));
  }
  return factors;
}

bool is_plain_file_name(const std::string& name) {
  constexpr std::size_t longest = 140;
  return !name.empty() && name.size() <= longest && name.front() != '.' && name.front() != '-' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' ||
                  c == '-';
         });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider bytes(data, size);
  std::vector<std::string> named;
  const Case a = case_from(bytes, named);
  const Case b = case_from(bytes, named);
  fuzz::require(is_plain_file_name(a.id(named)) && is_plain_file_name(b.id(named)));
  const auto differ = [](const auto& x, const auto& y) {
    return x.first != y.first || to_text(x.second) != to_text(y.second) ||
           x.second.index() != y.second.index();
  };
  const bool same = std::equal(a.factors().begin(), a.factors().end(), b.factors().begin(),
                               b.factors().end(), std::not_fn(differ));
  fuzz::require(same == (a.id(named) == b.id(named)));
  return 0;
}
