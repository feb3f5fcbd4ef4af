#pragma once
// Case: what is recorded of one point of a sweep, every factor by name.

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

// What a factor is, beside its values in a file.
struct FactorNote {
  std::string name;
  std::string unit;  // empty: none
  std::string description;
};

// Whether Case::id() could be this: a plain file name.
[[nodiscard]] bool is_case_id(std::string_view text);

class Case {
 public:
  // Adds a factor at the end, or replaces the one of that name.
  void set(std::string_view name, Value value);

  [[nodiscard]] bool has(std::string_view name) const;
  // Throws InternalError for an unknown name.
  [[nodiscard]] const Value& at(std::string_view name) const;
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

}  // namespace paceline
