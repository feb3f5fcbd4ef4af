#include "record/sealed_file.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>
#include <utility>

namespace paceline {

namespace {

std::string seal_of(std::string_view bytes) {
  return fmt::format("\npaceline {:016x}\n", digest(bytes));
}

}  // namespace

std::uint64_t digest(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::string sealed(std::string_view bytes) { return std::string(bytes) + seal_of(bytes); }

std::optional<std::string> unsealed(const std::filesystem::path& path) {
  std::ostringstream contents;
  contents << std::ifstream(path, std::ios::binary).rdbuf();  // of a folder: nothing
  std::string bytes = std::move(contents).str();
  const std::size_t seal_size = seal_of("").size();
  if (bytes.size() < seal_size) return std::nullopt;
  const std::string seal = bytes.substr(bytes.size() - seal_size);
  bytes.resize(bytes.size() - seal_size);
  if (seal != seal_of(bytes)) return std::nullopt;
  return bytes;
}

}  // namespace paceline
