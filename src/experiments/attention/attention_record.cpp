#include "experiments/attention/attention_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "harness/gather.h"
#include "measure/statistics.h"
#include "model/accounting.h"

namespace paceline {

namespace {

// Table "check": the error and the tolerance of every output of every rank.
void add_check(CaseRecord& record, World& world, const AttentionOutcome& outcome) {
  std::vector<double> mine;
  for (const OutputError& e : outcome.errors) mine.push_back(e.error);
  const auto all = gather_values(world, mine);
  if (world.rank() != 0) return;
  TableRows check("check");
  double most = 0;  // the largest error / tolerance
  for (std::size_t i = 0; i < outcome.errors.size(); ++i) {
    OutputError worst = outcome.errors[i];
    for (std::size_t r = 0; r < all.size(); ++r) {
      const OutputError one{worst.output, all[r][i], worst.tolerance};
      check.add({{"rank", static_cast<std::int64_t>(r)},
                 {"output", one.output},
                 {"error", one.error},
                 {"tolerance", one.tolerance},
                 {"checked_rows", static_cast<std::int64_t>(outcome.checked_rows)}});
      if (!one.passed() || one.error > worst.error) worst = one;
    }
    record.add("error_" + worst.output, worst.error);
    most = std::max(most, std::isnan(worst.error) ? HUGE_VAL : worst.error / worst.tolerance);
    if (worst.passed() || record.status == Status::mismatch) continue;
    record.status = Status::mismatch;
    record.reason = fmt::format("{} is off by {:.2g}, more than {:g}; see check/", worst.output,
                                worst.error, worst.tolerance);
  }
  record.add("largest_error_over_tolerance", most);
  record.tables.push_back(check.take());
}

void add_rates(CaseRecord& record, const AttentionCase& c, const AttentionOutcome& outcome) {
  const double flops = attention_flops(c.shape());
  const double in = attention_forward_bytes(c.precision, c.shape());
  const double out = attention_backward_bytes(c.precision, c.shape());
  const double backward = attention_backward_factor * flops;
  const std::array<double, 3> work = {flops, backward, flops + backward};
  const std::array<double, 3> moved = {in, out, in + out};
  constexpr double tera = 1e12;
  double fastest = 0;
  for (std::size_t p = 0; p < attention_phases.size(); ++p) {
    const std::string phase = attention_phases.at(p);
    const double seconds = summarize(max_over_ranks(record.samples[p].measured)).median;
    record.add(phase + "_tflops_per_s", work.at(p) / seconds / tera);
    record.add(phase + "_bandwidth_floor_s", moved.at(p) / outcome.copy_ceiling);
    fastest = std::max(fastest, work.at(p) / seconds);
  }
  record.add("datasheet_tflops_per_s", outcome.peak.rates.attention / tera);
  record.add("datasheet_source", outcome.peak.source);
  warn_above_ceiling(record, fastest / outcome.peak.rates.attention);
}

void add_tiles(CaseRecord& record, const std::string& pass, const FlashTiles& tiles) {
  record.add(pass + "_kernels", std::string(tiles.kernels));
  record.add(pass + "_tile_queries", tiles.queries);
  record.add(pass + "_tile_keys", tiles.keys);
  record.add(pass + "_parts", tiles.parts);
}

}  // namespace

void add_attention(CaseRecord& record, World& world, const AttentionCase& c,
                   const AttentionOutcome& outcome) {
  add_check(record, world, outcome);
  if (world.rank() != 0) return;
  add_rates(record, c, outcome);
  const AttentionMemory form =
      attention_memory(c.attention, c.precision, c.shape(), c.device == DeviceKind::cpu);
  record.add("saved_bytes", static_cast<double>(outcome.memory.saved));
  record.add("predicted_saved_bytes", form.saved);
  record.add("memory_before_backward_bytes", static_cast<double>(outcome.memory.before_backward));
  record.add("peak_bytes", static_cast<double>(outcome.memory.peak));
  record.add("predicted_peak_bytes", form.peak());
  record.add("workspace_bytes", static_cast<double>(outcome.memory.workspace));
  if (c.attention != AttentionKind::flash) return;
  add_tiles(record, "forward", outcome.flash.forward);
  add_tiles(record, "backward", outcome.flash.backward);
}

}  // namespace paceline
