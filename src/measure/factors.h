#pragma once
// Factors: what a case fixes. An experiment has a plain struct of typed fields, one for each factor
// (`AttentionCase`), and declares each factor once:
//
//   factor<C>(&C::head_dim, {.name = "head_dim", .help = "elements of a head's row",
//                            .use = FactorUse::axis, .least = 1, .most = 1 << 14})
//
// Options, presets, axes, ids, attributes and columns of tables all follow from that.

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/enum_names.h"
#include "core/error.h"
#include "core/precision.h"
#include "core/units.h"
#include "measure/case.h"

namespace paceline {

enum class FactorUse : std::uint8_t {
  axis,      // its option takes a list; the cases are the product of all axes
  setting,   // its option takes one value
  recorded,  // it has no option: it follows from the launch
};

// The numbers that a factor may be.
struct Range {
  double least = 0;
  double most = 0;
};

template <class C>
struct FactorInfo {
  std::string_view name;  // of the attribute and the summary's column
  std::string_view help;  // without values and defaults, which are added to it
  FactorUse use = FactorUse::setting;
  std::string_view option = {};        // where it is not "--" and the name with '-' for '_'
  std::string_view defaults = {};      // an axis's values where the option is not given; empty: the
                                       // field's initial value
  std::string_view said_default = {};  // how the help names a default that follows from the launch
  std::string_view bare = {};          // the value of an option that is given without one
  double least = 0;                    // of numbers
  double most = 0;
  bool names_case = false;  // a setting that names cases in ids, progress and tables, as axes do
  // A factor that does not apply to a case has no value there: points that differ in it alone are
  // one case. Null: it applies to every case.
  bool (*applies)(const C&) = nullptr;
  std::string_view goes_with = {};  // what it applies to: "--sync bucketed"
};

// How a field's type is read from an option and written in attributes and tables: read(text,
// range) throws UsageError; choices() lists the values where there are few.
template <class T>
struct FactorValue;

template <std::integral T>
  requires(!std::is_same_v<T, bool>)
struct FactorValue<T> {
  static T read(std::string_view text, const Range& r) {
    return static_cast<T>(
        parse_integer(text, static_cast<std::int64_t>(r.least), static_cast<std::int64_t>(r.most)));
  }
  static Value write(T value) { return std::int64_t{value}; }
  static std::string choices() { return {}; }
};

template <>
struct FactorValue<double> {
  static double read(std::string_view text, const Range& r) {
    return parse_real(text, r.least, r.most);
  }
  static Value write(double value) { return value; }
  static std::string choices() { return {}; }
};

template <>
struct FactorValue<bool> {
  static bool read(std::string_view text, const Range& /*range*/) {
    if (text == "true" || text == "false") return text == "true";
    return enum_named<YesNo>(text) == YesNo::yes;
  }
  static Value write(bool value) { return value; }
  static std::string choices() { return joined_names(names_of(YesNo{})); }
};

template <>
struct FactorValue<std::string> {
  static std::string read(std::string_view text, const Range& /*range*/) {
    return std::string(text);
  }
  static Value write(const std::string& value) { return value; }
  static std::string choices() { return {}; }
};

template <NamedEnum E>
struct FactorValue<E> {
  static E read(std::string_view text, const Range& /*range*/) { return enum_named<E>(text); }
  static Value write(E value) { return std::string(name_of(value)); }
  static std::string choices() { return joined_names(names_of(E{})); }
};

// A size, read with its unit.
struct ByteCount {
  std::int64_t bytes = 0;

  [[nodiscard]] bool operator==(const ByteCount&) const = default;
};
template <>
struct FactorValue<ByteCount> {
  static ByteCount read(std::string_view text, const Range& /*range*/) {
    return {parse_bytes(text)};
  }
  static Value write(ByteCount value) { return value.bytes; }
  static std::string choices() { return {}; }
};

// What follows from the launch where no option says it.
template <class T>
struct FactorValue<std::optional<T>> {
  static std::optional<T> read(std::string_view text, const Range& range) {
    return FactorValue<T>::read(text, range);
  }
  static Value write(const std::optional<T>& value) {
    return value ? FactorValue<T>::write(*value) : std::string("auto");
  }
  static std::string choices() { return FactorValue<T>::choices(); }
};

template <>
struct FactorValue<Precision> {
  static Precision read(std::string_view text, const Range& /*range*/) {
    if (text == "fp64") throw UsageError("fp64 is the tests' own; choose fp32, bf16 or fp16");
    return precision_named(text);
  }
  static Value write(const Precision& value) { return std::string(value.name); }
  static std::string choices() { return "fp32 tf32 bf16 fp16"; }
};

// A factor of cases C, whatever the type of its field.
template <class C>
struct Factor {
  FactorInfo<C> info;
  std::string choices;
  std::function<std::function<void(C&)>(std::string_view)> read;  // the text's value into a case
  std::function<Value(const C&)> value;
  std::function<void(C& to, const C& from)> copy;

  [[nodiscard]] bool applies(const C& c) const { return !info.applies || info.applies(c); }
  [[nodiscard]] bool names_case() const { return info.use == FactorUse::axis || info.names_case; }
  [[nodiscard]] std::string option() const {
    if (!info.option.empty()) return std::string(info.option);
    std::string option(info.name);
    std::replace(option.begin(), option.end(), '_', '-');
    return fmt::format("--{}", option);
  }
};

// `field` is C's own or of a part that C derives from.
template <class C, class Part, class T>
[[nodiscard]] Factor<C> factor(T Part::*field, const FactorInfo<C>& info) {
  return {.info = info,
          .choices = FactorValue<T>::choices(),
          .read = [field, range = Range{info.least, info.most}](
                      std::string_view text) -> std::function<void(C&)> {
            return [field, value = FactorValue<T>::read(text, range)](C& c) { c.*field = value; };
          },
          .value = [field](const C& c) { return FactorValue<T>::write(c.*field); },
          .copy = [field](C& to, const C& from) { to.*field = from.*field; }};
}

// A factor of these values alone, by these names.
template <class C, class Part, class T>
[[nodiscard]] Factor<C> factor_among(T Part::*field, const FactorInfo<C>& info,
                                     std::vector<std::pair<std::string_view, T>> values) {
  std::vector<std::string_view> names;
  for (const auto& [name, _] : values) names.push_back(name);
  Factor<C> f = {.info = info, .choices = joined_names(names), .read = {}, .value = {}, .copy = {}};
  f.read = [field, names, values](std::string_view text) -> std::function<void(C&)> {
    return [field, value = values[index_of_name(names, text)].second](C& c) { c.*field = value; };
  };
  f.value = [field, values](const C& c) -> Value {
    const auto it = std::find_if(values.begin(), values.end(),
                                 [&](const auto& v) { return v.second == c.*field; });
    return it == values.end() ? std::string() : std::string(it->first);
  };
  f.copy = [field](C& to, const C& from) { to.*field = from.*field; };
  return f;
}

template <class C>
using Factors = std::vector<Factor<C>>;

// The fields of an aggregate, a base counting as one: the most values that it can be made of.
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

// The factors of a part of a case, one for each of its fields: a field without one does not
// compile.
template <class Part, class C, class... More>
[[nodiscard]] Factors<C> factors_of(Factor<C> first, More... more) {
  static_assert(1 + sizeof...(More) == field_count<Part>(), "a factor for each field");
  return {std::move(first), std::move(more)...};
}

template <class C>
[[nodiscard]] Factors<C> joined(std::initializer_list<Factors<C>> groups) {
  Factors<C> all;
  for (const Factors<C>& group : groups) all.insert(all.end(), group.begin(), group.end());
  return all;
}

// The factors that apply, with their values: what is recorded.
template <class C>
[[nodiscard]] Case recorded(const Factors<C>& factors, const C& c) {
  Case values;
  for (const Factor<C>& f : factors) {
    if (f.applies(c)) values.set(f.info.name, f.value(c));
  }
  return values;
}

// Gives every factor that does not apply its value in `defaults`, and drops what is there already.
template <class C>
[[nodiscard]] std::vector<C> folded(const Factors<C>& factors, std::vector<C> cases,
                                    const C& defaults) {
  std::vector<C> unique;
  for (C& c : cases) {
    for (const Factor<C>& f : factors) {
      if (!f.applies(c)) f.copy(c, defaults);
    }
    if (std::find(unique.begin(), unique.end(), c) == unique.end()) unique.push_back(std::move(c));
  }
  return unique;
}

}  // namespace paceline
