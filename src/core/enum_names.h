#pragma once
// The names of an enum's values in options, tables and files, declared once next to the enum.

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace paceline {

// For the overload of names_of() next to each enum, in the order of the enumerators, from value 0:
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

// The index of `name` in `names`. Throws UsageError, which lists the names, if it is not one of
// them.
[[nodiscard]] std::size_t index_of_name(std::span<const std::string_view> names,
                                        std::string_view name);

template <NamedEnum E>
[[nodiscard]] E enum_named(std::string_view name) {
  return static_cast<E>(index_of_name(names_of(E{}), name));
}

// " (did you mean small?)": the name with the smallest edit distance (insertions, deletions,
// substitutions, transpositions of neighbours), or the only one that begins with `name`; empty if
// no name is close.
[[nodiscard]] std::string did_you_mean(std::string_view name,
                                       std::span<const std::string_view> names);

// "naive fused flash"
[[nodiscard]] std::string joined_names(std::span<const std::string_view> names);

enum class YesNo : unsigned char { no, yes };
constexpr auto names_of(YesNo) { return names("no", "yes"); }

}  // namespace paceline
