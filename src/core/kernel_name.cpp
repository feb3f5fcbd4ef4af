#include "core/kernel_name.h"

#include <cxxabi.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace paceline {

namespace {

void remove_all(std::string& text, std::string_view part) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) {
    text.erase(at, part.size());
  }
}

// "a<b<c>, d>(e)" -> "a<b, d>".
std::string without_inner_arguments(const std::string& name) {
  std::string kept;
  int depth = 0;
  for (const char c : name) {
    if (depth == 0 && c == '(') break;
    if (c == '>') --depth;
    if (c == '>' && depth == 0 && kept.back() == ' ') kept.pop_back();  // "a<b<c> >"
    const bool is_bracket = c == '<' || c == '>';
    if (is_bracket ? depth == 0 : depth <= 1) kept += c;
    if (c == '<') ++depth;
  }
  return kept;
}

}  // namespace

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : name;
}

std::string short_kernel_name(const std::string& name) {
  constexpr std::size_t most = 80;
  std::string text = name;
  constexpr std::array<std::string_view, 5> left_out = {
      "(anonymous namespace)::", "paceline::", "hopper::", "cutlass::", "void "};
  for (const std::string_view part : left_out) remove_all(text, part);
  text = without_inner_arguments(text);
  if (text.size() > most) text = text.substr(0, most - 3) + "...";
  return text;
}

}  // namespace paceline
