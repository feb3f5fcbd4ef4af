#pragma once
// Case: the recorded factors of one point of a sweep, by name.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace paceline {

using Value = std::variant<std::int64_t, double, bool, std::string>;

// "128", "0.001", "true", "naive": the value as in tables and ids.
[[nodiscard]] std::string to_text(const Value& value);

// The description of a factor in a file.
struct FactorNote {
  std::string name;
  std::string unit;  // empty: none
  std::string description;
};

// Whether `text` has the form of a Case::id(): a plain file name.
[[nodiscard]] bool is_case_id(std::string_view text);
// Whether `text` ends as a Case::id() does; names that people give seldom do.
[[nodiscard]] bool ends_in_case_hash(std::string_view text);

class Case {
 public:
  // Appends a factor, or replaces the value of the factor of that name.
  void set(std::string_view name, Value value);

  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }
  // Throws InternalError for an unknown name.
  [[nodiscard]] const Value& at(std::string_view name) const;
  [[nodiscard]] const std::vector<std::pair<std::string, Value>>& factors() const {
    return factors_;
  }
  // An id, equal for equal factors and the same in every run: the values of the factors in `named`
  // that the case has, joined by '-' and reduced to [A-Za-z0-9._], then 8 hexadecimal digits of a
  // hash of all factors' names and values.
  [[nodiscard]] std::string id(const std::vector<std::string>& named) const;

  [[nodiscard]] bool operator==(const Case&) const = default;

 private:
  [[nodiscard]] const Value* find(std::string_view name) const;

  std::vector<std::pair<std::string, Value>> factors_;
};

}  // namespace paceline
