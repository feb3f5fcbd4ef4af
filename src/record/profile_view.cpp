#include "record/profile_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "record/descriptions.h"

namespace paceline {

namespace {

constexpr std::size_t all_rows = std::numeric_limits<std::size_t>::max();

// Cells of the row, renamed; nullopt if the row lacks one of them.
std::optional<Row> chosen(const Row& row,
                          const std::vector<std::pair<std::string, std::string>>& names) {
  Row cells;
  for (const auto& [name, as] : names) {
    const Cell* cell = find_column(row, name);
    if (cell == nullptr) return std::nullopt;
    cells.push_back({as, cell->value});
  }
  return cells;
}

double ratio(const Row& row, std::string_view over, std::string_view under) {
  return value_in<double>(row, over) / value_in<double>(row, under);
}

// The rows of a table to show: the first `most` rows of rank 0 for which is_shown() is true.
std::vector<std::size_t> shown_rows(const Table& table, std::size_t most,
                                    const std::function<bool(const Row&)>& is_shown) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < length_of(table.columns.front()) && places.size() < most; ++i) {
    const Row row = row_of(table.columns, i);
    if (value_in<std::int64_t>(row, "rank") == 0 && is_shown(row)) places.push_back(i);
  }
  return places;
}

// These rows of the table, with the columns of these names, renamed.
Table part(const Table& table, const std::vector<std::size_t>& places,
           const std::vector<std::pair<std::string_view, std::string_view>>& names) {
  Table shown{table.path, {}};
  for (const auto& [name, as] : names) {
    const Column* column = find_column(table.columns, name);
    if (column == nullptr) continue;  // a share of a ceiling that was not measured
    Column kept = *column;
    kept.name = as;
    kept.unit = unit_of(table.path, name);
    std::visit(
        [&](auto& values) {
          const auto all = std::exchange(values, {});
          for (const std::size_t place : places) values.push_back(all[place]);
        },
        kept.data);
    shown.columns.push_back(std::move(kept));
  }
  return shown;
}

Table largest_kernels(const Table& table) {
  constexpr std::size_t most = 12;
  return part(table, shown_rows(table, most, [](const Row&) { return true; }),
              {{"phase", "phase"},
               {"operation", "operation"},
               {"calls", "calls"},
               {"total", "total"},
               {"share", "share"},
               {"flops_per_s", "compute"},
               {"flops_share", "of_gemm"},
               {"bytes_per_s", "memory"},
               {"bytes_share", "of_copy"},
               {"kernel", "kernel"}});
}

// A tree: every scope is indented below its parent.
Table largest_scopes(const Table& table) {
  const auto is_large = [](const Row& row) {
    constexpr double least_share = 0.01;
    return value_in<double>(row, "share") >= least_share &&
           value_in<std::int64_t>(row, "operation") == 0;
  };
  Table shown = part(table, shown_rows(table, all_rows, is_large),
                     {{"scope", "scope"},
                      {"calls", "calls"},
                      {"total", "total"},
                      {"share", "share"},
                      {"flops_per_s", "compute"},
                      {"flops_share", "of_gemm"},
                      {"bytes_per_s", "memory"},
                      {"bytes_share", "of_copy"}});
  auto* paths = shown.columns.empty()
                    ? nullptr
                    : std::get_if<std::vector<std::string>>(&shown.columns.front().data);
  if (paths == nullptr) throw UsageError("column 'scope' is missing or of another type");
  for (std::string& path : *paths) {
    const auto depth = std::count(path.begin(), path.end(), '/');
    path = std::string(2 * static_cast<std::size_t>(depth), ' ') + path.substr(path.rfind('/') + 1);
  }
  return shown;
}

Table all_phases(const Table& table) {
  return part(table, shown_rows(table, all_rows, [](const Row&) { return true; }),
              {{"phase", "phase"},
               {"host", "host"},
               {"events", "events"},
               {"extent", "extent"},
               {"busy", "busy"},
               {"gaps", "gaps"},
               {"kernels", "kernels"},
               {"products", "products"}});
}

}  // namespace

std::vector<Table> profile_answers(const std::vector<Row>& rows) {
  TableRows forward("profile/forward");
  TableRows costliest("profile/costliest");
  TableRows products("profile/products");
  TableRows softmax("profile/softmax");
  for (const Row& row : rows) {
    const Cell* source = find_column(row, "profile_source");
    if (source == nullptr || source->value == Value(std::string())) continue;
    if (const auto cells = chosen(row, {{"case", "case"},
                                        {"forward_host_s", "host"},
                                        {"forward_events_s", "events"},
                                        {"forward_kernels_s", "busy"}})) {
      forward.add(*cells);
    }
    for (const std::string phases : {"forward", "forward_backward"}) {
      auto cells = chosen(row, {{"case", "case"},
                                {phases + "_costliest_kernel", "kernel"},
                                {phases + "_costliest_calls", "calls"},
                                {phases + "_costliest_share", "share"},
                                {phases + "_other_kernels", "other_kernels"}});
      if (!cells) continue;
      cells->insert(cells->begin() + 1, Cell{"phases", phases});
      costliest.add(*cells);
    }
    if (const auto cells = chosen(row, {{"case", "case"},
                                        {"forward_products_share", "forward"},
                                        {"step_products_share", "step"}})) {
      products.add(*cells);
    }
    if (auto cells = chosen(row, {{"case", "case"},
                                  {"softmax_s", "softmax"},
                                  {"attention_products_s", "products"},
                                  {"softmax_flops", "softmax_flops"},
                                  {"attention_products_flops", "products_flops"}})) {
      cells->push_back({"time_ratio", ratio(row, "softmax_s", "attention_products_s")});
      cells->push_back({"flops_ratio", ratio(row, "softmax_flops", "attention_products_flops")});
      softmax.add(*cells);
    }
  }
  std::vector<Table> tables;
  for (TableRows* table : {&forward, &costliest, &products, &softmax}) {
    if (!table->empty()) tables.push_back(table->take());
  }
  return tables;
}

std::vector<Table> largest_parts(const std::vector<Table>& tables) {
  std::vector<Table> shown;
  for (const Table& table : tables) {
    if (table.path == "kernels") shown.push_back(largest_kernels(table));
    if (table.path == "kernels/scopes") shown.push_back(largest_scopes(table));
    if (table.path == "kernels/phases") shown.push_back(all_phases(table));
  }
  std::erase_if(shown, [](const Table& table) { return length_of(table.columns.front()) == 0; });
  return shown;
}

std::string profile_remark(const std::vector<Table>& tables) {
  std::vector<std::string> remarks;
  for (const Table& table : tables) {
    if (table.path != "trace/ranks") continue;
    for (std::size_t rank = 0; rank < length_of(table.columns.front()); ++rank) {
      const Row row = row_of(table.columns, rank);
      const auto& reason = value_in<std::string>(row, "reason");
      const auto lost = value_in<std::int64_t>(row, "lost");
      if (!reason.empty()) {
        remarks.push_back(fmt::format(
            "rank {} is timed by events ({}), which do not see into graphs", rank, reason));
      }
      if (lost > 0) remarks.push_back(fmt::format("{} records of rank {} are lost", lost, rank));
    }
  }
  return fmt::format("{}", fmt::join(remarks, "; "));
}

}  // namespace paceline
