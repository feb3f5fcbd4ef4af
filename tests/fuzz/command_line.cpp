// Parses command lines, one word per line of the input; runs nothing.

#include <vector>

#include "registry.h"
#include "tests/fuzz/fuzz.h"

using namespace paceline;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text(fuzz::text_of(data, size));
  std::vector<std::string> words = {"paceline"};
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    words.emplace_back(text.substr(begin, end - begin).c_str());
    begin = end + 1;
  }
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  fuzz::accepted(
      [&] { (void)parse_command_line(registry(), static_cast<int>(words.size()), argv.data()); });
  return 0;
}
