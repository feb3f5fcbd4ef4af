#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "model/batch.h"

namespace paceline {

namespace {

// Little-endian.
template <class T>
T number_at(std::string_view bytes, std::size_t offset) {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

bool is_text(std::string_view head) {
  constexpr std::size_t enough = 16;
  while (!head.empty() && static_cast<signed char>(head.back()) < 0) head.remove_suffix(1);
  return head.size() >= enough && is_utf8(head) && std::ranges::all_of(head, [](unsigned char c) {
           return c >= ' ' || c == '\t' || c == '\n' || c == '\r';
         });
}

// The kind of a file that is no flat file of tokens, by how it begins; empty for others.
std::string_view foreign_kind(std::string_view head) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kinds = {{
      {"PK\x03\x04", "a zip archive, as of np.savez and torch.save"},
      {"\x1f\x8b\x08", "compressed (gzip)"},
      {"\x28\xb5\x2f\xfd", "compressed (zstd)"},
      {"\xfd\x37zXZ", "compressed (xz)"},
      {"\x80\x02\x8a\x0a", "a pickle of PyTorch"},
      {"\x80\x04\x95", "a pickle"},
      {"\x80\x05\x95", "a pickle"},
      {"PAR1", "Parquet"},
      {"ARROW1", "Arrow"},
      {"MMIDIDX", "an index of Megatron-LM, whose tokens are in the .bin file"},
  }};
  for (const auto& [start, kind] : kinds) {
    if (head.starts_with(start)) return kind;
  }
  constexpr std::int32_t llmc = 2024;  // its magic numbers are dates
  constexpr std::int32_t days = 10'000;
  if (head.size() >= sizeof llmc && number_at<std::int32_t>(head, 0) / days == llmc) {
    return "of llm.c, but not its tokens";
  }
  constexpr std::size_t of_length = 8;
  if (head.substr(std::min(of_length, head.size())).starts_with("{\"")) return "of safetensors";
  return is_text(head) ? "text" : "";
}

// Whether every second uint16 is 0, as in integers of 4 or 8 bytes with ids below 65,536.
bool looks_wider(std::string_view head) {
  constexpr std::size_t enough = 16;  // bytes
  bool others = false;
  for (std::size_t i = 0; i + 4 <= head.size(); i += 4) {
    if (number_at<std::uint16_t>(head, i + 2) != 0) return false;
    others = others || number_at<std::uint16_t>(head, i) != 0;
  }
  return head.size() >= enough && others;
}

// The text of a NPY header after "'key': ".
std::string_view value_of(std::string_view header, std::string_view key) {
  const std::size_t at = header.find(fmt::format("'{}':", key));
  if (at == std::string_view::npos) return {};
  header.remove_prefix(at + key.size() + 3);
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  return header;
}

bool among(std::string_view letters, char c) { return letters.find(c) != letters.npos; }

// "(5, 4), ..." -> 5, 4
std::vector<std::int64_t> shape_of(std::string_view text) {
  std::vector<std::int64_t> shape;
  text = text.substr(0, text.find(')'));
  for (const char* at = text.data(); at < text.data() + text.size();) {
    std::uint32_t extent = 0;  // as many rows and columns as any file holds
    const auto [end, error] = std::from_chars(at, text.data() + text.size(), extent);
    if (error == std::errc()) shape.push_back(extent);
    at = std::max(end, at + 1);
  }
  return shape;
}

}  // namespace

std::string IntegerType::name() const {
  constexpr int bits = 8;
  return fmt::format("{}int{}", is_signed ? "" : "u", bits * bytes);
}

void refuse_tokens(const std::filesystem::path& file, const std::string& what) {
  throw UsageError(fmt::format("--tokens: {} {}", file.string(), what));
}

void require_dtype(const std::filesystem::path& file, const std::string& own,
                   const std::optional<TokenDtype>& dtype) {
  if (!dtype || own == name_of(*dtype)) return;
  throw UsageError(fmt::format(
      "--token-dtype: {} says itself that it holds {}; leave the option out", file.string(), own));
}

TokenFile::TokenFile(std::filesystem::path file, const std::optional<TokenDtype>& dtype,
                     std::int64_t vocab)
    : file_(std::move(file)),
      in_(file_, std::ios::binary),
      bytes_(static_cast<std::int64_t>(std::filesystem::file_size(file_))) {
  constexpr std::size_t long_enough = 1 << 16U;  // for the longest header
  std::string head(long_enough, '\0');
  in_.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(in_.gcount()));
  in_.clear();
  const bool has_header = read_npy(head) || read_llmc(head);
  if (has_header) {
    require_dtype(file_, type_.name(), dtype);
  } else {
    read_flat(head, dtype, vocab);
  }
}

// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
bool TokenFile::read_npy(std::string_view head) {
  constexpr std::size_t of_version = 6;
  constexpr std::size_t of_length = 8;
  constexpr std::size_t shortest = 12;
  if (!head.starts_with("\x93NUMPY")) return false;
  if (head.size() < shortest) refuse_tokens(file_, "is cut off in its header of NPY");
  const bool is_first = head[of_version] == 1;
  const std::size_t length = is_first ? number_at<std::uint16_t>(head, of_length)
                                      : number_at<std::uint32_t>(head, of_length);
  const std::size_t begin = of_length + (is_first ? sizeof(std::uint16_t) : sizeof(std::uint32_t));
  if (length > head.size() - begin) refuse_tokens(file_, "is cut off in its header of NPY");
  const std::string_view header = head.substr(begin, length);
  const std::string_view text = value_of(header, "descr");
  const std::string_view quoted = text.substr(std::min<std::size_t>(1, text.size()));
  const std::string_view dtype = quoted.substr(0, quoted.find('\''));  // "<u2", "|i1"
  const std::string_view order = dtype.size() == 3 && dtype[2] == '1' ? "|<" : "<";
  if (dtype.size() != 3 || order.find(dtype[0]) == order.npos || !among("iu", dtype[1]) ||
      !among("1248", dtype[2])) {
    refuse_tokens(file_, fmt::format("holds NPY of dtype {}; tokens are little-endian integers, "
                                     "such as '<u2'",
                                     text.empty() ? "none" : text.substr(0, text.find(','))));
  }
  type_ = {.bytes = dtype[2] - '0', .is_signed = dtype[1] == 'i'};
  const std::vector<std::int64_t> shape = shape_of(value_of(header, "shape"));
  if (shape.empty() || shape.size() > 2) {
    refuse_tokens(file_, fmt::format("holds NPY of {} dimensions; tokens are [tokens] or [B, T]",
                                     shape.size()));
  }
  if (shape.size() == 2 && !value_of(header, "fortran_order").starts_with("False")) {
    refuse_tokens(file_, "holds NPY in Fortran order; save np.ascontiguousarray() of it");
  }
  offset_ = static_cast<std::int64_t>(begin + length);
  if (shape.size() == 2) rows_ = shape.front();
  columns_ = shape.back();
  require_size();
  return true;
}

// https://github.com/karpathy/llm.c/blob/master/dev/data/data_common.py
bool TokenFile::read_llmc(std::string_view head) {
  constexpr std::int64_t of_header = 1024;
  constexpr std::int32_t gpt2 = 20240520;
  constexpr std::int32_t llama3 = 20240801;
  constexpr std::int32_t version_of_gpt2 = 1;
  constexpr std::int32_t version_of_llama3 = 7;
  if (head.size() < sizeof gpt2) return false;
  const auto magic = number_at<std::int32_t>(head, 0);
  if (magic != gpt2 && magic != llama3) return false;
  if (bytes_ < of_header) refuse_tokens(file_, "is cut off in its header of llm.c");
  const auto version = number_at<std::int32_t>(head, sizeof magic);
  const std::int32_t known = magic == gpt2 ? version_of_gpt2 : version_of_llama3;
  if (version != known) {
    refuse_tokens(file_, fmt::format("has llm.c's header {} of version {}; this reads version {}",
                                     magic, version, known));
  }
  type_.bytes = magic == gpt2 ? sizeof(std::uint16_t) : sizeof(std::uint32_t);
  offset_ = of_header;
  columns_ = number_at<std::int32_t>(head, 2 * sizeof magic);
  require_size();
  return true;
}

void TokenFile::read_flat(std::string_view head, const std::optional<TokenDtype>& dtype,
                          std::int64_t vocab) {
  if (const std::string_view kind = foreign_kind(head); !dtype && !kind.empty()) {
    refuse_tokens(file_, fmt::format("is {}: tokens are HDF5, NPY, llm.c's or flat; give "
                                     "--token-dtype if it is flat",
                                     kind));
  }
  if (!dtype && looks_wider(head)) {
    refuse_tokens(file_,
                  "holds 0 as every second uint16, as wider integers do; give --token-dtype");
  }
  type_.bytes = dtype == TokenDtype::uint32 ? sizeof(std::uint32_t) : sizeof(std::uint16_t);
  constexpr std::int64_t most = 1 << 16U;
  if (type_.bytes == sizeof(std::uint16_t) && vocab > most) {
    throw UsageError(
        fmt::format("--token-dtype: uint16 holds ids below {}, --vocab is {}; give uint32 if {} "
                    "holds that",
                    most, vocab, file_.string()));
  }
  if (bytes_ % type_.bytes != 0) {
    refuse_tokens(file_, fmt::format("holds {} bytes: it is neither HDF5, NPY nor llm.c's, nor "
                                     "whole tokens of {}",
                                     bytes_, type_.name()));
  }
  columns_ = bytes_ / type_.bytes;
}

void TokenFile::require_size() const {
  const double ids = static_cast<double>(rows_.value_or(1)) * static_cast<double>(columns_);
  const std::int64_t held = bytes_ - offset_;
  if (ids * static_cast<double>(type_.bytes) == static_cast<double>(held)) return;
  refuse_tokens(file_, fmt::format("holds {} bytes after its header, which claims {} tokens of {}",
                                   held, ids, type_.name()));
}

std::vector<std::int64_t> TokenFile::read(std::int64_t first, std::int64_t count) {
  std::vector<char> raw(static_cast<std::size_t>(count * type_.bytes));
  in_.seekg(offset_ + first * type_.bytes);
  in_.read(raw.data(), static_cast<std::streamsize>(raw.size()));
  if (!in_) refuse_tokens(file_, "cannot be read");
  const std::int64_t unused = 64 - 8 * type_.bytes;  // bits above those of an id
  std::vector<std::int64_t> ids;
  for (std::size_t at = 0; at < raw.size(); at += static_cast<std::size_t>(type_.bytes)) {
    std::uint64_t id = 0;
    std::memcpy(&id, raw.data() + at, static_cast<std::size_t>(type_.bytes));
    // An id of 2^63 and more is refused as negative.
    ids.push_back(type_.is_signed ? static_cast<std::int64_t>(id << unused) >> unused
                                  : static_cast<std::int64_t>(id));
  }
  return ids;
}

}  // namespace paceline
