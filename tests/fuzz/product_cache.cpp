// The file of tuned products, which runs on a GPU read from the user's cache folder.

#include "cuda/gemm/product_cache.h"

#include "tests/fuzz/fuzz.h"

using namespace paceline;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string identity = "NVIDIA H200";
  const ProductChoices choices = choices_of(std::string(fuzz::text_of(data, size)), identity);
  const std::string text = text_of(choices, identity);
  fuzz::require(text_of(choices_of(text, identity), identity) == text);
  return 0;
}
