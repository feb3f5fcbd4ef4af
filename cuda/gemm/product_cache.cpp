#include "cuda/gemm/product_cache.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/fnv1a.h"

namespace paceline {

namespace fs = std::filesystem;

namespace {

constexpr int hex_digits = 16;  // of a word of the algorithm

std::uint64_t sum_of(std::string_view text) {
  Fnv1a sum;
  for (const char c : text) sum.add(static_cast<unsigned char>(c));
  return sum.sum();
}

// The first line: format and version, identity, and a checksum of the lines below.
std::string head(const std::string& identity, std::string_view lines) {
  return fmt::format("paceline-products 2\t{}\t{:016x}\n", identity, sum_of(lines));
}

std::string line_of(const std::string& product, const ProductChoice& choice) {
  std::string algorithm;
  for (const std::uint64_t word : choice.algorithm) algorithm += fmt::format("{:016x}", word);
  return fmt::format("{}\t{}\t{}\t{}\t{}\t{}\n", product, name_of(choice.batching), algorithm,
                     choice.candidates, choice.first_seconds, choice.seconds);
}

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> parts;
  for (std::size_t end = line.find('\t'); end != std::string_view::npos; end = line.find('\t')) {
    parts.push_back(line.substr(0, end));
    line.remove_prefix(end + 1);
  }
  parts.push_back(line);
  return parts;
}

// False unless the whole of `text` is a number.
template <class T, class... Base>
bool parse(std::string_view text, T& value, Base... base) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base...);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_algorithm(std::string_view text, std::array<std::uint64_t, 8>& words) {
  if (text.size() != hex_digits * words.size()) return false;
  for (std::uint64_t& word : words) {
    if (!parse(text.substr(0, hex_digits), word, 16)) return false;
    text.remove_prefix(hex_digits);
  }
  return true;
}

std::optional<std::pair<std::string, ProductChoice>> choice_of(std::string_view line) {
  const std::vector<std::string_view> parts = split(line);
  constexpr std::size_t columns = 6;
  if (parts.size() != columns || parts[0].empty()) return std::nullopt;
  ProductChoice choice;
  const auto batchings = names_of(Batching{});
  const auto batching = std::find(batchings.begin(), batchings.end(), parts[1]);
  if (batching == batchings.end()) return std::nullopt;
  choice.batching = static_cast<Batching>(batching - batchings.begin());
  const bool numbers = parse_algorithm(parts[2], choice.algorithm) &&
                       parse(parts[3], choice.candidates) &&
                       parse(parts[4], choice.first_seconds) && parse(parts[5], choice.seconds);
  const bool negative = choice.candidates < 0 || choice.first_seconds < 0 || choice.seconds < 0;
  if (!numbers || negative) return std::nullopt;
  return std::pair{std::string(parts[0]), choice};
}

// Identity "NVIDIA H200 ..." -> "products-NVIDIA-H200-...".
std::string file_name(const std::string& identity) {
  std::string name = "products-" + identity + ".txt";
  for (char& c : name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.';
    if (!plain) c = '-';
  }
  return name;
}

const char* set_variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

// nullopt if the file cannot be read.
std::optional<std::string> contents(const fs::path& path) {
  const std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

std::string text_of(const ProductChoices& choices, const std::string& identity) {
  std::string lines;
  for (const auto& [product, choice] : choices) lines += line_of(product, choice);
  return head(identity, lines) + lines;
}

std::optional<ProductChoices> choices_of(const std::string& text, const std::string& identity) {
  const std::size_t first_end = text.find('\n');
  if (first_end == std::string::npos) return std::nullopt;
  std::string_view lines = std::string_view(text).substr(first_end + 1);
  if (std::string_view(text).substr(0, first_end + 1) != head(identity, lines)) return std::nullopt;
  ProductChoices choices;
  for (std::size_t end = lines.find('\n'); end != std::string_view::npos; end = lines.find('\n')) {
    std::optional<std::pair<std::string, ProductChoice>> choice = choice_of(lines.substr(0, end));
    if (!choice) return std::nullopt;
    choices.insert(std::move(*choice));
    lines.remove_prefix(end + 1);
  }
  if (!lines.empty()) return std::nullopt;
  return choices;
}

fs::path cache_folder() {
  if (const char* folder = set_variable("PACELINE_CACHE")) return folder;
  if (const char* caches = set_variable("XDG_CACHE_HOME")) return fs::path(caches) / "paceline";
  if (const char* home = set_variable("HOME")) return fs::path(home) / ".cache" / "paceline";
  return {};
}

ProductCache::ProductCache(const fs::path& folder, std::string identity)
    : identity_(std::move(identity)) {
  if (!folder.empty()) path_ = folder / file_name(identity_);
}

ProductChoices ProductCache::read() const {
  if (path_.empty()) return {};
  const std::optional<std::string> text = contents(path_);
  if (!text) return {};
  return choices_of(*text, identity_).value_or(ProductChoices{});
}

// Writes a temporary file and renames it, so that a reader sees either the old or the new file.
void ProductCache::add(const ProductChoices& choices) const {
  if (path_.empty()) return;
  ProductChoices all = read();
  for (const auto& [product, choice] : choices) all.insert_or_assign(product, choice);
  std::error_code ignored;
  fs::create_directories(path_.parent_path(), ignored);
  std::string temporary = path_.string() + ".XXXXXX";
  const int descriptor = mkstemp(temporary.data());
  if (descriptor < 0) return;
  (void)fchmod(descriptor, 0644);  // mkstemp() creates files that only the owner can read
  const bool written = write_all(descriptor, text_of(all, identity_));
  const bool closed = close(descriptor) == 0;
  std::error_code failed;
  if (written && closed) fs::rename(temporary, path_, failed);
  if (!written || !closed || failed) fs::remove(temporary, ignored);
}

}  // namespace paceline
