// From what the ranks measured to the case's record.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "experiments/collectives/collectives.h"
#include "harness/gather.h"
#include "measure/statistics.h"

namespace paceline {

void CollectivesExperiment::add_outcome(CaseRecord& record, const Outcome& outcome, World& world,
                                        double link_ceiling) const {
  const Samples& samples = outcome.samples;
  record.stop_reason = samples.stop_reason;
  for (std::size_t p = 0; p < samples.phases.size(); ++p) {
    record.samples.push_back({.phase = samples.phases[p],
                              .warmup = gather_doubles(world, samples.warmup[p]),
                              .measured = gather_doubles(world, samples.measured[p])});
  }
  std::vector<double> found;
  for (const auto& [_, c] : outcome.checks) {
    found.push_back(static_cast<double>(c.wrong));
    found.push_back(c.largest_error);
    found.push_back(static_cast<double>(c.checksum >> 32U));
    found.push_back(static_cast<double>(c.checksum & 0xffffffffU));
  }
  const auto all = gather_doubles(world, found);
  if (world.rank() != 0) return;

  const Case& c = record.factors;
  const Collective& op = collective_named(c.text("op"));
  Column rank{"rank", "", std::vector<std::int64_t>{}};
  Column when{"when", "", std::vector<std::string>{}};
  Column wrong{"wrong", "", std::vector<std::int64_t>{}};
  Column error{"largest_error", "", std::vector<double>{}};
  std::map<std::string, double> wrong_when;
  double largest = 0;
  bool differ = false;
  for (std::size_t r = 0; r < all.size(); ++r) {
    for (std::size_t i = 0; i < outcome.checks.size(); ++i) {
      const double* values = all[r].data() + 4 * i;
      const double* first = all[0].data() + 4 * i;
      std::get<0>(rank.data).push_back(static_cast<std::int64_t>(r));
      std::get<2>(when.data).push_back(outcome.checks[i].first);
      std::get<0>(wrong.data).push_back(static_cast<std::int64_t>(values[0]));
      std::get<1>(error.data).push_back(values[1]);
      wrong_when[outcome.checks[i].first] += values[0];
      largest = std::max(largest, values[1]);
      differ = differ || (op.same_everywhere && (values[2] != first[2] || values[3] != first[3]));
    }
  }
  record.tables.push_back({"check", {rank, when, wrong, error}});
  double most_wrong = 0;  // of one check, over all ranks
  for (const auto& [_, count] : wrong_when) most_wrong = std::max(most_wrong, count);
  if (most_wrong > 0 || differ) record.status = Status::mismatch;
  if (most_wrong > 0) {
    record.reason =
        fmt::format("wrong elements: {:.0f}, the largest error is {:g}", most_wrong, largest);
  } else if (differ) {
    record.reason = "the ranks' results differ in their bits";
  }

  const auto n = static_cast<double>(c.integer("ranks"));
  const auto bytes = static_cast<double>(message_bytes(c));
  const double seconds = summarize(max_over_ranks(record.samples.back().measured)).median;
  const double algbw = bytes / seconds;
  const double busbw = algbw * op.bus_factor(n);
  record.summary.push_back(number("message_bytes", "bytes", bytes));
  record.summary.push_back(number("algbw_bytes_per_s", "bytes/s", algbw));
  record.summary.push_back(number("busbw_bytes_per_s", "bytes/s", busbw));
  record.summary.push_back(
      {"busbw_factor", "", std::vector<std::string>{std::string(op.bus_formula)}});
  record.summary.push_back(number("link_ceiling_bytes_per_s", "bytes/s", link_ceiling));
  record.summary.push_back(number("link_share", "", busbw / link_ceiling));
  record.summary.push_back(number("wrong_elements", "", most_wrong));
  record.summary.push_back(number("largest_error", "", largest));
}

std::vector<ShownColumn> CollectivesExperiment::shown_columns() const {
  return {{"algbw_bytes_per_s", "algbw"},
          {"busbw_bytes_per_s", "busbw"},
          {"link_share", "link share"},
          {"slowest_rank", "slowest"},
          {"wrong_elements", "wrong"}};
}

std::string CollectivesExperiment::notes() const {
  return "times: median over repetitions of the slowest rank. algbw: bytes / time; busbw: algbw "
         "times 2 (n - 1) / n\n(all_reduce), (n - 1) / n (reduce_scatter, all_gather, all_to_all), "
         "1 (others). link share: busbw over the\nmost that "
         "a rank takes in from others: in a ring of send_recv or a broadcast, at the best of three "
         "sizes\n";
}

}  // namespace paceline
