#include "measure/case.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/fnv1a.h"

namespace paceline {

namespace {

void add_text(Fnv1a& hash, std::string_view text) {
  for (const char c : text) hash.add(static_cast<unsigned char>(c));
  hash.add(0);  // so that "ab", "c" and "a", "bc" differ
}

constexpr std::size_t hash_digits = 8;

bool is_kept(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_';
}

std::string reduced(std::string_view text) {
  std::string out;
  for (const char c : text) out += is_kept(c) ? c : '_';
  if (out.starts_with('.')) out.front() = '_';  // not a hidden file
  return out;
}

}  // namespace

std::string to_text(const Value& value) {
  return std::visit([](const auto& v) { return fmt::format("{}", v); }, value);
}

bool is_case_id(std::string_view text) {
  constexpr std::size_t longest = 200;  // leaves room for the suffixes of file names
  return !text.empty() && text.size() <= longest && !text.starts_with('.') &&
         !text.starts_with('-') &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_kept(c) || c == '-'; });
}

bool ends_in_case_hash(std::string_view text) {
  const std::string_view hash = text.substr(text.size() - std::min(text.size(), hash_digits));
  return hash.size() == hash_digits &&
         hash.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

void Case::set(std::string_view name, Value value) {
  const auto known = std::ranges::find(factors_, name, &std::pair<std::string, Value>::first);
  if (known == factors_.end()) {
    factors_.emplace_back(name, std::move(value));
  } else {
    known->second = std::move(value);
  }
}

const Value* Case::find(std::string_view name) const {
  const auto known = std::ranges::find(factors_, name, &std::pair<std::string, Value>::first);
  return known == factors_.end() ? nullptr : &known->second;
}

const Value& Case::at(std::string_view name) const {
  if (const Value* value = find(name)) return *value;
  throw InternalError(fmt::format("a case has no factor '{}'", name));
}

std::string Case::id(const std::vector<std::string>& named) const {
  constexpr std::size_t longest = 120;  // file systems allow names of 255 bytes
  std::string readable;
  for (const std::string& name : named) {
    const Value* value = find(name);
    if (value == nullptr) continue;
    if (!readable.empty()) readable += '-';
    readable += reduced(to_text(*value));
  }
  if (readable.size() > longest) readable.resize(longest);

  Fnv1a hash;
  for (const auto& [name, value] : factors_) {
    add_text(hash, name);
    add_text(hash, fmt::format("{}:{}", value.index(), to_text(value)));
  }
  const auto folded = static_cast<std::uint32_t>(hash.sum() ^ (hash.sum() >> 32U));
  return fmt::format("{}{}{:0{}x}", readable, readable.empty() ? "" : "-", folded, hash_digits);
}

}  // namespace paceline
