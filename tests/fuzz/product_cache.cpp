// The file of tuned products, which runs on a GPU read from the user's cache folder.

#include "cuda/gemm/product_cache.h"

#include <fmt/format.h>

#include "core/fnv1a.h"
#include "tests/fuzz/fuzz.h"

using namespace paceline;

namespace {

// The first line has the checksum of the lines below, which no mutation would hit.
std::string with_first_line(std::string_view lines, const std::string& identity) {
  Fnv1a sum;
  for (const char c : lines) sum.add(static_cast<unsigned char>(c));
  const std::string of_none = text_of({}, identity);
  return of_none.substr(0, of_none.rfind('\t') + 1) + fmt::format("{:016x}\n{}", sum.sum(), lines);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string identity = "NVIDIA H200, driver 580.65.06, cublasLt 130100";
  const std::string lines(fuzz::text_of(data, size));
  (void)choices_of(lines, identity);
  const auto choices = choices_of(with_first_line(lines, identity), identity);
  fuzz::require(choices || !lines.empty());
  if (!choices) return 0;
  for (const auto& [product, choice] : *choices) {
    fuzz::require(!product.empty() && choice.candidates >= 0);
    fuzz::require(!(choice.first_seconds < 0) && !(choice.seconds < 0));
  }
  const std::string text = text_of(*choices, identity);
  const auto again = choices_of(text, identity);
  fuzz::require(again && text_of(*again, identity) == text);
  return 0;
}
