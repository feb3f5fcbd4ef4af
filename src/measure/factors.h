#pragma once
// Factors: the parameters of a case. An experiment has a plain struct with one typed field per
// factor (`AttentionCase`), and declares each factor once:
//
//   axis<C>(&C::head_dim, "head_dim", "elements of a head's row").from(1, 1 << 14)
//
// Options, presets, axes, ids, attributes and table columns are derived from the declaration.

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/enum_names.h"
#include "core/error.h"
#include "core/fnv1a.h"
#include "core/precision.h"
#include "core/units.h"
#include "measure/case.h"

namespace paceline {

enum class FactorUse : std::uint8_t {
  axis,       // its option takes a list; the cases are the product of all axes
  setting,    // its option takes one value
  by_launch,  // no option: its value follows from the launch
};

// The numbers that a factor may take, least and most included.
struct Range {
  double least = 0;
  double most = 0;
};

// The type of an option's values.
enum class ValueType : std::uint8_t { text, name, yes_no, integer, real, size };

[[nodiscard]] constexpr bool is_number(ValueType type) {
  return type == ValueType::integer || type == ValueType::real || type == ValueType::size;
}

template <class T>
consteval ValueType value_type_of() {
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, YesNo>) return ValueType::yes_no;
  if constexpr (NamedEnum<T>) return ValueType::name;
  if constexpr (std::integral<T>) return ValueType::integer;
  if constexpr (std::floating_point<T>) return ValueType::real;
  return ValueType::text;
}

// Parsing of a field's type from an option, and its value in attributes and tables. read(text,
// range) throws UsageError. choices() lists the values of an enumeration; empty for other types.
template <class T>
struct FactorValue {
  static constexpr ValueType type = value_type_of<T>();
  static T read(std::string_view text, const Range& range) {
    if constexpr (std::is_same_v<T, bool>) {
      if (text == "true" || text == "false") return text == "true";
      return enum_named<YesNo>(text) == YesNo::yes;
    } else if constexpr (NamedEnum<T>) {
      return enum_named<T>(text);
    } else if constexpr (std::integral<T>) {
      return static_cast<T>(parse_integer(text, static_cast<std::int64_t>(range.least),
                                          static_cast<std::int64_t>(range.most)));
    } else if constexpr (std::floating_point<T>) {
      return parse_real(text, range.least, range.most);
    } else {
      return T(text);
    }
  }
  static Value write(const T& value) {
    if constexpr (NamedEnum<T>) {
      return std::string(name_of(value));
    } else if constexpr (std::integral<T> && !std::is_same_v<T, bool>) {
      return std::int64_t{value};
    } else {
      return value;
    }
  }
  static std::string choices() {
    if constexpr (std::is_same_v<T, bool>) return joined_names(names_of(YesNo{}));
    if constexpr (NamedEnum<T>) return joined_names(names_of(T{}));
    return {};
  }
};

// A value that is derived from the launch unless an option sets it.
template <class T>
struct FactorValue<std::optional<T>> : FactorValue<T> {
  static Value write(const std::optional<T>& value) {
    return value ? FactorValue<T>::write(*value) : std::string("auto");
  }
};

// A size in bytes, parsed with its unit.
struct ByteCount {
  std::int64_t bytes = 0;

  [[nodiscard]] bool operator==(const ByteCount&) const = default;
};
template <>
struct FactorValue<ByteCount> {
  static constexpr ValueType type = ValueType::size;
  static ByteCount read(std::string_view text, const Range& /*range*/) {
    return {parse_bytes(text)};
  }
  static Value write(ByteCount value) { return value.bytes; }
  static std::string choices() { return {}; }
};

template <>
struct FactorValue<Precision> {
  static constexpr ValueType type = ValueType::name;
  static Precision read(std::string_view text, const Range& /*range*/) {
    if (text == "fp64") throw UsageError("fp64 is for tests only; choose fp32, bf16 or fp16");
    return precision_named(text);
  }
  static Value write(const Precision& value) { return std::string(value.name); }
  static std::string choices() { return "fp32 tf32 bf16 fp16"; }
};

// A factor of cases C, with the type of its field erased.
template <class C>
struct Factor {
  FactorUse use;
  ValueType type;
  std::string_view name;  // of the attribute and of the summary's column
  std::string_view help;  // without values and defaults, which are appended
  std::string choices;
  // Parses the text; the result stores the value in a case.
  std::function<std::function<void(C&)>(std::string_view text, const Range&)> reader;
  std::function<Value(const C&)> value;
  std::function<void(C& to, const C& from)> copy;

  Range range = {};
  std::string option = "--" + with_dashes(name);
  std::string_view defaults = {};        // an axis's values if the option is not given; empty: the
                                         // field's initial value
  std::string_view default_text = {};    // the help's text for a default that is not a single value
  std::string_view implicit_value = {};  // the value of an option given without one
  bool names_case = use == FactorUse::axis;  // part of ids, progress and tables
  bool (*applies_to)(const C&) = nullptr;    // null: applies to every case
  std::string_view goes_with = {};           // text of the condition: "--sync bucketed"
  bool multiplies_everywhere = true;         // multiplies all cases; see folded()
  std::string_view unit = {};                // of the values in files

  Factor& from(double least, double most) { return set(&Factor::range, Range{least, most}); }
  Factor& called(std::string_view text) { return set(&Factor::option, std::string(text)); }
  Factor& by_default(std::string_view values) { return set(&Factor::defaults, values); }
  Factor& described_default(std::string_view text) { return set(&Factor::default_text, text); }
  Factor& implicit(std::string_view text) { return set(&Factor::implicit_value, text); }
  Factor& in(std::string_view text) { return set(&Factor::unit, text); }
  Factor& naming() { return set(&Factor::names_case, true); }
  // The factor applies to cases that satisfy `condition`. Elsewhere it has no value, and points
  // that differ only in it are one case.
  Factor& where(bool (*condition)(const C&), std::string_view of) {
    applies_to = condition;
    return set(&Factor::goes_with, of);
  }

  // The same for a condition that reads only factors declared before this one: its values then
  // multiply only the cases that it applies to.
  Factor& only_where(bool (*condition)(const C&), std::string_view of) {
    multiplies_everywhere = false;
    return where(condition, of);
  }

  [[nodiscard]] bool has_option() const { return use != FactorUse::by_launch; }
  [[nodiscard]] bool applies(const C& c) const { return !applies_to || applies_to(c); }
  [[nodiscard]] std::function<void(C&)> read(std::string_view text) const {
    return reader(text, range);
  }
  [[nodiscard]] FactorNote note() const {
    std::string description(help);
    if (!goes_with.empty()) description += fmt::format("; only with {}", goes_with);
    return {std::string(name), std::string(unit), std::move(description)};
  }

 private:
  template <class T>
  Factor& set(T Factor::*member, T to) {
    this->*member = std::move(to);
    return *this;
  }

  static std::string with_dashes(std::string_view name) {
    std::string text(name);
    std::replace(text.begin(), text.end(), '_', '-');
    return text;
  }
};

// `field` is a member of C or of a base class of C.
template <class C, class Part, class T, class Read, class Write>
[[nodiscard]] Factor<C> factor(FactorUse use, ValueType type, T Part::*field, std::string_view name,
                               std::string_view help, std::string choices, Read read, Write write) {
  return {use,
          type,
          name,
          help,
          std::move(choices),
          [field, read](std::string_view text, const Range& range) -> std::function<void(C&)> {
            return [field, value = read(text, range)](C& c) { c.*field = value; };
          },
          [field, write](const C& c) -> Value { return write(c.*field); },
          [field](C& to, const C& from) { to.*field = from.*field; }};
}
template <class C, class Part, class T>
[[nodiscard]] Factor<C> factor(FactorUse use, T Part::*field, std::string_view name,
                               std::string_view help) {
  using Text = FactorValue<T>;
  return factor<C>(use, Text::type, field, name, help, Text::choices(), Text::read, Text::write);
}
template <class C, class Part, class T>
[[nodiscard]] Factor<C> axis(T Part::*field, std::string_view name, std::string_view help) {
  return factor<C>(FactorUse::axis, field, name, help);
}
template <class C, class Part, class T>
[[nodiscard]] Factor<C> setting(T Part::*field, std::string_view name, std::string_view help) {
  return factor<C>(FactorUse::setting, field, name, help);
}
template <class C, class Part, class T>
[[nodiscard]] Factor<C> by_launch(T Part::*field, std::string_view name, std::string_view help) {
  return factor<C>(FactorUse::by_launch, field, name, help);
}

// An axis that takes only the given values, by the given names.
template <class C, class Part, class T>
[[nodiscard]] Factor<C> axis_among(T Part::*field, std::string_view name, std::string_view help,
                                   const std::vector<std::pair<std::string_view, T>>& values) {
  std::vector<std::string_view> names;
  for (const auto& [text, _] : values) names.push_back(text);
  return factor<C>(
      FactorUse::axis, ValueType::name, field, name, help, joined_names(names),
      [=](std::string_view text, const Range&) {
        return values[index_of_name(names, text)].second;
      },
      [=](const T& value) {
        const auto it = std::find_if(values.begin(), values.end(),
                                     [&](const auto& v) { return v.second == value; });
        return it == values.end() ? std::string() : std::string(it->first);
      });
}

template <class C>
using Factors = std::vector<Factor<C>>;

// The number of fields of an aggregate, a base class counting as one: the largest number of values
// that can initialise it.
struct AnyValue {
  template <class T>
  operator T() const;  // NOLINT(google-explicit-constructor)
};
template <class T, class... Values>
consteval std::size_t field_count() {
  if constexpr (requires { T{std::declval<Values>()..., AnyValue{}}; }) {
    return field_count<T, Values..., AnyValue>();
  } else {
    return sizeof...(Values);
  }
}

// The factors of a base class of a case, one per field. A field without a factor is a compile-time
// error.
template <class Part, class C, class... More>
[[nodiscard]] Factors<C> factors_of(const Factor<C>& first, const More&... more) {
  static_assert(1 + sizeof...(More) == field_count<Part>(), "a factor for each field");
  return {first, more...};
}

template <class C>
[[nodiscard]] Factors<C> joined(std::initializer_list<Factors<C>> groups) {
  Factors<C> all;
  for (const Factors<C>& group : groups) all.insert(all.end(), group.begin(), group.end());
  return all;
}

template <class C>
[[nodiscard]] std::vector<FactorNote> notes_of(const Factors<C>& factors) {
  std::vector<FactorNote> notes;
  for (const Factor<C>& f : factors) notes.push_back(f.note());
  return notes;
}

// The values of the factors that apply: the recorded case.
template <class C>
[[nodiscard]] Case recorded(const Factors<C>& factors, const C& c) {
  Case values;
  for (const Factor<C>& f : factors) {
    if (f.applies(c)) values.set(f.name, f.value(c));
  }
  return values;
}

// Sets every factor that does not apply to its value in `defaults`, then removes duplicates.
template <class C>
[[nodiscard]] std::vector<C> folded(const Factors<C>& factors, std::vector<C> cases,
                                    const C& defaults) {
  const auto hash = [&](const C* c) {
    Fnv1a sum;
    for (const Factor<C>& f : factors) sum.add(std::hash<Value>()(f.value(*c)));
    return sum.sum();
  };
  const auto equal = [](const C* a, const C* b) { return *a == *b; };
  std::unordered_set<const C*, decltype(hash), decltype(equal)> seen(cases.size(), hash, equal);
  std::vector<C> unique;
  unique.reserve(cases.size());  // `seen` points into it
  for (C& c : cases) {
    for (const Factor<C>& f : factors) {
      if (!f.applies(c)) f.copy(c, defaults);
    }
    unique.push_back(std::move(c));
    if (!seen.insert(&unique.back()).second) unique.pop_back();
  }
  return unique;
}

}  // namespace paceline
