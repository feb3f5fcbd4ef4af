#include "harness/option_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/utf8.h"

namespace paceline {

namespace {

using Texts = std::vector<std::string>;

// "must be a whole number, a range as text, or an array of these"
std::string expected(const OptionTraits& traits) {
  std::string what;
  switch (traits.type) {
    case ValueType::text: what = "a string"; break;
    case ValueType::name: what = "a name in quotes"; break;
    case ValueType::yes_no: what = "true or false"; break;
    case ValueType::integer: what = "a whole number"; break;
    case ValueType::real: what = "a number"; break;
    case ValueType::size: what = "a number of bytes, or a size in quotes"; break;
  }
  if (!traits.implicit_value.empty() && traits.type != ValueType::yes_no) what += ", or true";
  if (traits.list && is_number(traits.type)) what += ", a range in quotes";
  if (traits.list) what += ", or an array";
  return what;
}

bool has_control_characters(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto code = static_cast<unsigned char>(c);
    return code < ' ' || code == 0x7f;
  });
}

// nullopt if the type is wrong.
std::optional<std::string> text_of(const TomlValue& value, const OptionTraits& traits) {
  if (const auto* yes = std::get_if<bool>(&value.value)) {
    if (traits.type == ValueType::yes_no) return *yes ? "yes" : "no";
    return *yes && !traits.implicit_value.empty() ? std::optional(traits.implicit_value)
                                                  : std::nullopt;
  }
  if (const auto* text = std::get_if<std::string>(&value.value)) {
    const bool flag =
        traits.type == ValueType::yes_no && traits.implicit_value.empty() && !traits.list;
    return flag ? std::nullopt : std::optional(*text);
  }
  const bool takes_integers = is_number(traits.type) || traits.type == ValueType::name;
  if (const auto* integer = std::get_if<std::int64_t>(&value.value)) {
    return takes_integers ? std::optional(std::to_string(*integer)) : std::nullopt;
  }
  const auto* real = std::get_if<double>(&value.value);
  const bool takes_reals = traits.type == ValueType::real;
  return real != nullptr && takes_reals ? std::optional(fmt::format("{}", *real)) : std::nullopt;
}

std::string one_text(const TomlDocument& file, const TomlEntry& entry, const TomlValue& value,
                     const OptionTraits& traits) {
  const std::optional<std::string> text = text_of(value, traits);
  if (!text) {
    throw file.error(value.at, fmt::format("{}: is {}; it must be {}", entry.key, kind_of(value),
                                           expected(traits)));
  }
  if (has_control_characters(*text)) {
    throw file.error(value.at, fmt::format("{}: has a control character in it", entry.key));
  }
  return *text;
}

std::optional<double> parsed_number(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && stop == end ? std::optional(value) : std::nullopt;
}

// Digits with an optional fraction and exponent, in the syntax common to TOML and our options.
bool is_toml_number(const std::string& text, bool real) {
  const auto digits = [&](std::size_t from) {
    return std::min(text.find_first_not_of("0123456789", from), text.size());
  };
  std::size_t at = digits(0);
  constexpr std::size_t max_digits = 18;
  if (at == 0 || at > max_digits || (at > 1 && text[0] == '0')) return false;
  if (real && at < text.size() && text[at] == '.') {
    const std::size_t end = digits(at + 1);
    if (end == at + 1) return false;
    at = end;
  }
  if (real && at < text.size() && text[at] == 'e') {
    at += at + 1 < text.size() && (text[at + 1] == '-' || text[at + 1] == '+') ? 2 : 1;
    const std::size_t end = digits(at);
    if (end == at) return false;
    at = end;
  }
  return at == text.size();
}

std::string toml_value(const std::string& text, const OptionTraits& traits) {
  if (traits.type == ValueType::yes_no) {
    if (text == "yes" || text == "true") return "true";
    if (text == "no" || text == "false") return "false";
  }
  const bool bare = is_number(traits.type) && is_toml_number(text, traits.type == ValueType::real);
  return bare ? text : toml_quoted(text);
}

}  // namespace

Texts parts_of(const Texts& texts) {
  Texts parts;
  for (const std::string& text : texts) {
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      parts.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return parts;
}

Texts option_texts(const TomlDocument& file, const TomlEntry& entry, const OptionTraits& traits) {
  const auto* array = std::get_if<TomlArray>(&entry.value.value);
  if (array == nullptr) return {one_text(file, entry, entry.value, traits)};
  if (!traits.list) {
    throw file.error(entry.value.at, fmt::format("{}: takes one value, not an array", entry.key));
  }
  if (array->empty()) {
    throw file.error(entry.value.at, fmt::format("{}: has no value", entry.key));
  }
  OptionTraits element = traits;
  element.implicit_value.clear();
  Texts texts;
  for (const TomlValue& value : *array) texts.push_back(one_text(file, entry, value, element));
  return texts;
}

std::string option_line(const std::string& key, const Texts& texts, const OptionTraits& traits) {
  if (std::any_of(texts.begin(), texts.end(), has_control_characters)) {
    throw UsageError(
        fmt::format("--{}: has a control character in it, which --config refuses", key));
  }
  if (!std::all_of(texts.begin(), texts.end(), is_utf8)) {
    throw UsageError(fmt::format("--{}: is not UTF-8, which TOML requires", key));
  }
  if (!traits.list || (texts.size() == 1 && texts[0].find(',') == std::string::npos)) {
    return fmt::format("{} = {}", key, toml_value(texts.at(0), traits));
  }
  Texts values;
  for (const std::string& part : parts_of(texts)) values.push_back(toml_value(part, traits));
  return fmt::format("{} = [{}]", key, fmt::join(values, ", "));
}

bool same_values(const Texts& a, const Texts& b) {
  const Texts left = parts_of(a);
  const Texts right = parts_of(b);
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](const std::string& x, const std::string& y) {
                      if (x == y) return true;
                      const std::optional<double> number = parsed_number(x);
                      return number && number == parsed_number(y);
                    });
}

}  // namespace paceline
