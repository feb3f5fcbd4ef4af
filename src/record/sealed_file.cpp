#include "record/sealed_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "core/error.h"
#include "core/fnv1a.h"

namespace paceline {

namespace {

std::string seal_of(std::string_view bytes) {
  return fmt::format("\npaceline {:016x}\n", digest(bytes));
}

std::string bytes_of(const std::filesystem::path& path) {
  const auto refusal = [&](const std::string& why) {
    return UsageError(fmt::format("cannot read {}: {}", path.string(), why));
  };
  std::error_code unknown;
  const std::uintmax_t size = std::filesystem::file_size(path, unknown);
  if (unknown) throw refusal(unknown.message());
  std::string bytes(size, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()))) {
    throw refusal(std::strerror(errno));
  }
  return bytes;
}

}  // namespace

std::uint64_t digest(std::string_view bytes) {
  Fnv1a hash;
  for (const char c : bytes) hash.add(static_cast<unsigned char>(c));
  return hash.sum();
}

std::string sealed(std::string_view bytes) { return std::string(bytes) + seal_of(bytes); }

std::optional<std::string> unsealed(const std::filesystem::path& path) {
  std::string bytes = bytes_of(path);
  const std::size_t seal_size = seal_of("").size();
  if (bytes.size() < seal_size) return std::nullopt;
  const std::string seal = bytes.substr(bytes.size() - seal_size);
  bytes.resize(bytes.size() - seal_size);
  if (seal != seal_of(bytes)) return std::nullopt;
  return bytes;
}

}  // namespace paceline
