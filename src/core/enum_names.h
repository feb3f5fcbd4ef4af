#pragma once
// The names of an enum's values, as options, tables and files write them: declared once, beside the
// enum.

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace paceline {

// To be overloaded beside each enum, with the enumerators' names from 0 on:
//   constexpr auto names_of(Color) { return names("red", "green"); }
template <class... Text>
[[nodiscard]] constexpr std::array<std::string_view, sizeof...(Text)> names(Text... text) {
  return {text...};
}

template <class E>
concept NamedEnum = std::is_enum_v<E> && requires(E e) { names_of(e); };

// Throws InternalError for a value that has no name.
[[noreturn]] void throw_unnamed(std::size_t value);

template <NamedEnum E>
[[nodiscard]] constexpr std::string_view name_of(E value) {
  constexpr auto all = names_of(E{});
  const auto place = static_cast<std::size_t>(value);
  if (place >= all.size()) throw_unnamed(place);
  return all.at(place);
}

// The place of `name` among `names`. Throws UsageError, which lists them, where it is none of them.
[[nodiscard]] std::size_t index_of_name(std::span<const std::string_view> names,
                                        std::string_view name);

template <NamedEnum E>
[[nodiscard]] E enum_named(std::string_view name) {
  return static_cast<E>(index_of_name(names_of(E{}), name));
}

// "naive fused flash"
[[nodiscard]] std::string joined_names(std::span<const std::string_view> names);

enum class YesNo : unsigned char { no, yes };
constexpr auto names_of(YesNo) { return names("no", "yes"); }

}  // namespace paceline
