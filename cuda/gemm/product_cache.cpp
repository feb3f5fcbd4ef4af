#include "cuda/gemm/product_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/error.h"

namespace paceline {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::json;

constexpr int format_version = 3;

// Identity "NVIDIA H200 ..." -> "products-NVIDIA-H200-...".
std::string file_name(const std::string& identity) {
  std::string name = "products-" + identity + ".json";
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

// JSON has no NaN: the time of a product that was not timed is null.
double seconds_of(const Json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

ProductChoice choice_of(const Json& entry) {
  return {.algorithm = entry.at("algorithm").get<decltype(ProductChoice::algorithm)>(),
          .batching = enum_named<Batching>(entry.at("batching").get<std::string>()),
          .candidates = entry.at("candidates").get<int>(),
          .first_seconds = seconds_of(entry.at("first_seconds")),
          .seconds = seconds_of(entry.at("seconds"))};
}

ProductChoices choices_in(const Json& file, const std::string& identity) {
  ProductChoices choices;
  if (file.at("version") != format_version || file.at("identity") != identity) return choices;
  for (const auto& [product, entry] : file.at("products").items()) {
    choices.emplace(product, choice_of(entry));
  }
  return choices;
}

}  // namespace

std::string text_of(const ProductChoices& choices, const std::string& identity) {
  Json products = Json::object();
  for (const auto& [product, choice] : choices) {
    products[product] = {{"algorithm", choice.algorithm},
                         {"batching", name_of(choice.batching)},
                         {"candidates", choice.candidates},
                         {"first_seconds", choice.first_seconds},
                         {"seconds", choice.seconds}};
  }
  const Json file = {
      {"version", format_version}, {"identity", identity}, {"products", std::move(products)}};
  return file.dump(1);
}

ProductChoices choices_of(const std::string& text, const std::string& identity) {
  try {
    return choices_in(Json::parse(text), identity);
  } catch (const Json::exception&) {
    return {};
  } catch (const UsageError&) {
    return {};  // no batching has this name
  }
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
  std::ifstream file(path_, std::ios::binary);
  return choices_of({std::istreambuf_iterator<char>(file), {}}, identity_);
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
  close(descriptor);
  std::ofstream file(temporary, std::ios::binary);
  file << text_of(all, identity_);
  file.close();
  std::error_code failed;
  if (file) fs::rename(temporary, path_, failed);
  if (!file || failed) fs::remove(temporary, ignored);
}

}  // namespace paceline
