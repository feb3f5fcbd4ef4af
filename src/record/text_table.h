#pragma once
// Aligned text for people: what the console table and the comparison are made of.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline {

// The factors of a row, as text; "" where one does not apply.
using FactorTexts = std::vector<std::pair<std::string, std::string>>;
// "size small, context 128, ...", in lines of 100 columns.
[[nodiscard]] std::string factors_line(const FactorTexts& factors);

// Columns under their heads, two spaces apart.
class TextTable {
 public:
  enum class Align : unsigned char { left, right };

  // A row for each of `factors`: those that are the same everywhere stand in a line above the
  // table, the others in its first columns, numbers to the right and text to the left.
  explicit TextTable(const std::vector<FactorTexts>& factors = {});

  void column(std::string head, Align align);
  // The next row: behind its factors `cells` fill columns; `tail` follows them, as wide as it is.
  void row(std::vector<std::string> cells, std::string tail = "");
  [[nodiscard]] std::string str() const;

 private:
  struct Row {
    std::vector<std::string> cells;
    std::string tail;
  };
  [[nodiscard]] std::string line(const Row& row, const std::vector<std::size_t>& widths) const;

  std::string above_;
  std::vector<std::vector<std::string>> factors_;  // of each row, those in columns
  std::vector<std::string> heads_;
  std::vector<Align> aligns_;
  std::vector<Row> rows_;
};

// What a column's numbers are divided by, and the unit that they have then.
struct Scale {
  double divisor = 1;
  std::string unit;

  // Four significant digits; "-" for NaN.
  [[nodiscard]] std::string text(double value) const;
  // "8.119 .. 8.127"; "-" where there is no interval.
  [[nodiscard]] std::string interval_text(double low, double high) const;
};

// A scale that suits the middle one of the values. Unit "s" becomes s, ms, us or ns; "bytes" B, KB,
// ...; "bytes/s" likewise; another keeps its name, from a million on with a prefix.
[[nodiscard]] Scale scale_for(std::vector<double> values, std::string_view unit);
// "peak_bytes", with its unit scaled -> "peak [MB]".
[[nodiscard]] std::string head_for(std::string_view name, std::string_view unit,
                                   const Scale& scale);

}  // namespace paceline
