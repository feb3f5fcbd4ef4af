#include "record/fits.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "record/case_file.h"

namespace paceline {

namespace {

// A row's texts and integers, which say what was fitted.
Row key_of(Row row) {
  std::erase_if(row, [](const Cell& cell) { return std::holds_alternative<double>(cell.value); });
  return row;
}

std::vector<Column> selected(std::vector<Column> columns, const std::vector<std::size_t>& rows) {
  for (Column& column : columns) {
    std::visit(
        [&](auto& data) {
          std::decay_t<decltype(data)> chosen;
          for (const std::size_t row : rows) chosen.push_back(data[row]);
          data = std::move(chosen);
        },
        column.data);
  }
  return columns;
}

// Adds to the table those rows of an earlier one that it does not replace.
void add_earlier(Table& table, const Table& earlier) {
  std::set<std::string> replaced;
  for (std::size_t i = 0; !table.columns.empty() && i < length_of(table.columns.front()); ++i) {
    replaced.insert(json_line(key_of(row_of(table.columns, i))));
  }
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < length_of(earlier.columns.front()); ++i) {
    if (!replaced.contains(json_line(key_of(row_of(earlier.columns, i))))) kept.push_back(i);
  }
  if (kept.empty()) return;
  std::vector<Column> columns = selected(earlier.columns, kept);
  table.columns =
      table.columns.empty() ? std::move(columns) : concatenate({std::move(columns), table.columns});
}

}  // namespace

std::vector<Table> read_fits(const hdf5::File& file) {
  std::vector<Table> fits;
  for (const char* table : fitted_tables) {
    if (!file.has(table)) continue;
    std::vector<Column> columns = read_columns(file.group(table));
    if (columns.empty()) continue;
    require_equal_lengths(columns, table);
    fits.push_back({table, std::move(columns)});
  }
  return fits;
}

std::vector<Table> with_earlier(std::vector<Table> tables, const std::vector<Table>& fits) {
  for (const Table& earlier : fits) {
    const auto same = [&](const Table& table) { return table.path == earlier.path; };
    auto table = std::find_if(tables.begin(), tables.end(), same);
    if (table == tables.end()) table = tables.insert(tables.end(), {earlier.path, {}});
    add_earlier(*table, earlier);
  }
  return tables;
}

}  // namespace paceline
