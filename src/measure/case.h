#pragma once
// Case: one point of a sweep, every factor by name. Grid: the product of the option lists.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace paceline {

using Value = std::variant<std::int64_t, double, bool, std::string>;

// "128", "0.001", "true", "naive": as tables and ids write it.
[[nodiscard]] std::string to_text(const Value& value);

class Case {
 public:
  // Adds a factor at the end, or replaces the one of that name.
  void set(std::string_view name, Value value);

  [[nodiscard]] bool has(std::string_view name) const;
  // Throws InternalError for an unknown name or another type.
  [[nodiscard]] const Value& at(std::string_view name) const;
  [[nodiscard]] std::int64_t integer(std::string_view name) const;
  [[nodiscard]] double real(std::string_view name) const;  // integers too
  [[nodiscard]] bool flag(std::string_view name) const;
  [[nodiscard]] const std::string& text(std::string_view name) const;

  [[nodiscard]] const std::vector<std::pair<std::string, Value>>& factors() const {
    return factors_;
  }
  // Unique among cases of different factors and stable from run to run: the values of those factors
  // in `named` that it has, joined by '-' and reduced to [A-Za-z0-9._], then 8 hexadecimal digits
  // of a hash of every factor's name and value.
  [[nodiscard]] std::string id(const std::vector<std::string>& named) const;

  [[nodiscard]] bool operator==(const Case&) const = default;

 private:
  std::vector<std::pair<std::string, Value>> factors_;
};

// The cases in order, equal ones once: points of a sweep may fold into one.
[[nodiscard]] std::vector<Case> without_repeats(std::vector<Case> cases);

// Another axis, which varies fastest, of those cases for which values_of(case) has values.
template <class F>
std::vector<Case> with_axis(const std::vector<Case>& cases, std::string_view name, F values_of) {
  std::vector<Case> all;
  for (const Case& c : cases) {
    const auto values = values_of(c);
    if (values.empty()) all.push_back(c);
    for (const auto& value : values) all.emplace_back(c).set(name, value);
  }
  return all;
}

class Grid {
 public:
  // An axis of one value or more; later axes vary faster.
  void axis(std::string_view name, std::vector<Value> values);
  template <class T>
  void axis(std::string_view name, const std::vector<T>& values) {
    axis(name, std::vector<Value>(values.begin(), values.end()));
  }
  // The product of all axes, in order, equal cases once.
  [[nodiscard]] std::vector<Case> cases() const;

 private:
  std::vector<std::pair<std::string, std::vector<Value>>> axes_;
};

}  // namespace paceline
