// From what the ranks measured to the case's record, and from all rows to the speed-ups.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "experiments/attention/attention.h"
#include "experiments/attention/attention_factors.h"
#include "harness/gather.h"
#include "measure/statistics.h"

namespace paceline {

namespace {

constexpr std::array<const char*, 3> phases = {"forward", "backward", "both"};

std::string text_of(const Column& column) {
  return std::visit([](const auto& data) { return to_text(Value(data.at(0))); }, column.data);
}

// A row's factors but for how it attends: what it shares with its naive counterpart.
std::string other_factors(const std::vector<Column>& row) {
  std::string key;
  for (const Column& column : row) {
    if (column.name == "status") break;
    if (column.name == "case" || column.name == "attention" || column.name == "fp32_attention" ||
        column.name == "flash_kernels") {
      continue;
    }
    key += column.name + "=" + text_of(column) + " ";
  }
  return key;
}

}  // namespace

void AttentionExperiment::add_outcome(CaseRecord& record, const Outcome& outcome) const {
  const Samples& samples = outcome.samples;
  record.stop_reason = samples.stop_reason;
  for (std::size_t p = 0; p < samples.phases.size(); ++p) {
    record.samples.push_back({.phase = samples.phases[p],
                              .warmup = gather_doubles(world_, samples.warmup[p]),
                              .measured = gather_doubles(world_, samples.measured[p])});
  }
  add_check(record, outcome);
  if (world_.rank() != 0) return;
  add_rates(record, outcome.copy_ceiling);
  const Case& c = record.factors;
  const OpsConfig config = ops_config_of(c);
  const AttentionShape shape = attention_shape_of(c);
  const AttentionMemory form =
      attention_memory(config.attention, config.precision, shape, c.text("device") == "cpu");
  const auto bytes = [&](const char* name, double value) {
    record.summary.push_back(number(name, "bytes", value));
  };
  bytes("saved_bytes", static_cast<double>(outcome.memory.saved));
  bytes("predicted_saved_bytes", form.saved);
  bytes("memory_before_backward_bytes", static_cast<double>(outcome.memory.before_backward));
  bytes("peak_bytes", static_cast<double>(outcome.memory.peak));
  bytes("predicted_peak_bytes", form.peak);
  bytes("workspace_bytes", static_cast<double>(outcome.memory.workspace));
  if (config.attention != AttentionKind::flash) return;
  const auto add_tiles = [&](const std::string& pass, const FlashTiles& tiles) {
    const auto rows = [&](const char* name, std::int64_t value) {
      record.summary.push_back({pass + name, "", std::vector<std::int64_t>{value}});
    };
    record.summary.push_back({pass + "_kernels", "", std::vector<std::string>{tiles.kernels}});
    rows("_tile_queries", tiles.queries);
    rows("_tile_keys", tiles.keys);
    rows("_parts", tiles.parts);
  };
  add_tiles("forward", outcome.flash.forward);
  add_tiles("backward", outcome.flash.backward);
}

// Every output of every rank beside its bar. One that does not pass makes the case a mismatch.
void AttentionExperiment::add_check(CaseRecord& record, const Outcome& outcome) const {
  std::vector<double> mine;
  for (const OutputError& e : outcome.errors) mine.push_back(e.error);
  const auto all = gather_doubles(world_, mine);
  if (world_.rank() != 0) return;
  Column rank{"rank", "", std::vector<std::int64_t>{}};
  Column output{"output", "", std::vector<std::string>{}};
  Column error{"error", "", std::vector<double>{}};
  Column bar{"bar", "", std::vector<double>{}};
  Column rows{"checked_rows", "", std::vector<std::int64_t>{}};
  double most = 0;  // of a bar
  for (std::size_t i = 0; i < outcome.errors.size(); ++i) {
    OutputError worst = outcome.errors[i];
    for (std::size_t r = 0; r < all.size(); ++r) {
      const OutputError one{worst.output, all[r][i], worst.bar};
      std::get<0>(rank.data).push_back(static_cast<std::int64_t>(r));
      std::get<2>(output.data).push_back(one.output);
      std::get<1>(error.data).push_back(one.error);
      std::get<1>(bar.data).push_back(one.bar);
      std::get<0>(rows.data).push_back(static_cast<std::int64_t>(outcome.checked_rows));
      if (!one.passed() || one.error > worst.error) worst = one;
    }
    record.summary.push_back(number("error_" + worst.output, "", worst.error));
    most = std::max(most, std::isnan(worst.error) ? HUGE_VAL : worst.error / worst.bar);
    if (worst.passed() || record.status == Status::mismatch) continue;
    record.status = Status::mismatch;
    record.reason = fmt::format("{} is off by {:.2g}, more than {:g}; see check/", worst.output,
                                worst.error, worst.bar);
  }
  record.summary.push_back(number("largest_error_of_bar", "", most));
  record.tables.push_back({"check", {rank, output, error, bar, rows}});
}

void AttentionExperiment::add_rates(CaseRecord& record, double copy_ceiling) const {
  const AttentionShape shape = attention_shape_of(record.factors);
  const Precision& precision = precision_named(record.factors.text("precision"));
  const double flops = attention_flops(shape);
  const double in = attention_forward_bytes(precision, shape);
  const double out = attention_backward_bytes(precision, shape);
  const double backward = attention_backward_factor * flops;
  const std::array<double, 3> work = {flops, backward, flops + backward};
  const std::array<double, 3> moved = {in, out, in + out};
  constexpr double tera = 1e12;
  for (std::size_t p = 0; p < phases.size(); ++p) {
    const std::string phase = phases.at(p);
    const double seconds = summarize(max_over_ranks(record.samples[p].measured)).median;
    record.summary.push_back(
        number(phase + "_tflops_per_s", "TFLOP/s", work.at(p) / seconds / tera));
    record.summary.push_back(number(phase + "_bandwidth_floor_s", "s", moved.at(p) / copy_ceiling));
  }
}

std::vector<Table> AttentionExperiment::closing_tables(
    const std::vector<std::vector<Column>>& rows) const {
  using Row = std::vector<Column>;
  const auto attends = [](const Row& row) { return value_in<std::string>(row, "attention"); };
  const auto is_ok = [](const Row& row) { return value_in<std::string>(row, "status") == "ok"; };
  std::map<std::string, const Row*> naive;
  for (const Row& row : rows) {
    if (attends(row) == "naive" && is_ok(row)) naive[other_factors(row)] = &row;
  }
  Column name{"case", "", std::vector<std::string>{}};
  std::array<std::vector<double>, 3> factor;
  for (const Row& row : rows) {
    const auto base = naive.find(other_factors(row));
    if (attends(row) == "naive" || !is_ok(row) || base == naive.end()) continue;
    std::get<2>(name.data).push_back(value_in<std::string>(row, "case"));
    for (std::size_t p = 0; p < phases.size(); ++p) {
      const std::string median = std::string(phases.at(p)) + "_median_s";
      factor.at(p).push_back(value_in<double>(*base->second, median) /
                             value_in<double>(row, median));
    }
  }
  if (length_of(name) == 0) return {};
  Table table{"speed_up", {name}};
  for (std::size_t p = 0; p < phases.size(); ++p) {
    table.columns.push_back({phases.at(p), "", factor.at(p)});
  }
  return {table};
}

std::vector<ShownColumn> AttentionExperiment::shown_columns() const {
  return {{"forward_tflops_per_s", "forward"},
          {"backward_tflops_per_s", "backward"},
          {"both_bandwidth_floor_s", "floor"},
          {"saved_bytes", "saved"},
          {"peak_bytes", "peak"},
          {"largest_error_of_bar", "error/bar"}};
}

std::string AttentionExperiment::notes() const {
  return "times: median over repetitions of the slowest rank. TFLOP/s: forward 4 B H T^2 d, half "
         "of it when causal, backward\n2.5 times that, over the time; floor: the bytes of q, k, v, "
         "o and their gradients over the measured copy rate.\nsaved: for backward; error/bar: the "
         "largest error of an output over what is allowed; speed_up: naive's time over\nthe "
         "case's\n";
}

}  // namespace paceline
