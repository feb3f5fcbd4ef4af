#include "experiments/collectives/collective.h"

#include <algorithm>
#include <array>
#include <string>

#include "core/error.h"

namespace paceline {

namespace {

constexpr int root = 0;

double twice_ring(double n) { return 2 * (n - 1) / n; }
double ring(double n) { return (n - 1) / n; }
double one(double /*n*/) { return 1; }
bool everyone(int /*rank*/) { return true; }
bool only_root(int rank) { return rank == root; }

using Call = CollectiveCall;

// Rank r sends to r + 1 and receives from r - 1.
int next(int rank, int n) { return (rank + 1) % n; }
int previous(int rank, int n) { return (rank + n - 1) % n; }

const std::array<Collective, 7> all = {{
    {.name = "all_reduce",
     .reduces = true,
     .in_place = true,
     .out_of_place = true,
     .send_is_whole = true,
     .recv_is_whole = true,
     .bus_formula = "2 (n - 1) / n",
     .bus_factor = twice_ring,
     .start = [](Communicator& c,
                 const Call& x) { return c.all_reduce(x.recv, x.send, x.reduction); },
     .expected = [](const Pattern& p, int, std::int64_t i, std::int64_t) { return p.reduced(i); },
     .has_result = everyone,
     .same_everywhere = true},
    {.name = "reduce_scatter",
     .reduces = true,
     .in_place = true,
     .out_of_place = true,
     .send_is_whole = true,
     .recv_is_whole = false,
     .bus_formula = "(n - 1) / n",
     .bus_factor = ring,
     .start = [](Communicator& c,
                 const Call& x) { return c.reduce_scatter(x.recv, x.send, x.reduction); },
     .expected = [](const Pattern& p, int rank, std::int64_t i,
                    std::int64_t k) { return p.reduced(rank * k + i); },
     .has_result = everyone,
     .same_everywhere = false},
    {.name = "all_gather",
     .reduces = false,
     .in_place = true,
     .out_of_place = true,
     .send_is_whole = false,
     .recv_is_whole = true,
     .bus_formula = "(n - 1) / n",
     .bus_factor = ring,
     .start = [](Communicator& c, const Call& x) { return c.all_gather(x.recv, x.send); },
     .expected = [](const Pattern& p, int, std::int64_t i,
                    std::int64_t k) { return p.sent(static_cast<int>(i / k), i % k); },
     .has_result = everyone,
     .same_everywhere = true},
    {.name = "broadcast",
     .reduces = false,
     .in_place = true,
     .out_of_place = false,
     .send_is_whole = true,
     .recv_is_whole = true,
     .bus_formula = "1",
     .bus_factor = one,
     .start = [](Communicator& c, const Call& x) { return c.broadcast(x.recv, root); },
     .expected = [](const Pattern& p, int, std::int64_t i,
                    std::int64_t) { return p.sent(root, i); },
     .has_result = everyone,
     .same_everywhere = true},
    {.name = "reduce",
     .reduces = true,
     .in_place = true,
     .out_of_place = true,
     .send_is_whole = true,
     .recv_is_whole = true,
     .bus_formula = "1",
     .bus_factor = one,
     .start = [](Communicator& c,
                 const Call& x) { return c.reduce(x.recv, x.send, x.reduction, root); },
     .expected = [](const Pattern& p, int, std::int64_t i, std::int64_t) { return p.reduced(i); },
     .has_result = only_root,
     .same_everywhere = false},
    {.name = "all_to_all",
     .reduces = false,
     .in_place = false,
     .out_of_place = true,
     .send_is_whole = true,
     .recv_is_whole = true,
     .bus_formula = "(n - 1) / n",
     .bus_factor = ring,
     .start = [](Communicator& c, const Call& x) { return c.all_to_all(x.recv, x.send); },
     .expected = [](const Pattern& p, int rank, std::int64_t i,
                    std::int64_t k) { return p.sent(static_cast<int>(i / k), rank * k + i % k); },
     .has_result = everyone,
     .same_everywhere = false},
    {.name = "send_recv",
     .reduces = false,
     .in_place = false,
     .out_of_place = true,
     .send_is_whole = true,
     .recv_is_whole = true,
     .bus_formula = "1",
     .bus_factor = one,
     .start =
         [](Communicator& c, const Call& x) {
           const int n = c.size();
           return c.send_recv(x.recv, previous(c.rank(), n), x.send, next(c.rank(), n));
         },
     .expected = [](const Pattern& p, int rank, std::int64_t i,
                    std::int64_t) { return p.sent(previous(rank, p.ranks()), i); },
     .has_result = everyone,
     .same_everywhere = false},
}};

constexpr std::int64_t period = 251;
constexpr std::int64_t middle = period / 2;

// bfloat16 holds the integers up to 256: sums of 64 numbers up to 3, products of 8 numbers up to 2.
// With more ranks the others send what changes nothing.
constexpr std::int64_t exact_terms(ReduceOp reduction) {
  return reduction == ReduceOp::prod ? 8 : 64;
}

}  // namespace

Pattern::Pattern(int ranks, bool reduces, ReduceOp reduction, std::int64_t salt)
    : ranks_(ranks),
      reduces_(reduces),
      reduction_(reduction),
      salt_(salt),
      stride_((ranks + exact_terms(reduction) - 1) / exact_terms(reduction)) {
  if (!reduces) return;
  for (std::int64_t i = 0; i < cycle(); ++i) reduced_.push_back(reduce(i));
}

double Pattern::sent(int rank, std::int64_t i) const {
  const std::int64_t mixed = (i + salt_ + 7 * rank) % period;
  if (!reduces_) return static_cast<double>((mixed * 5 + 31 * rank) % period);
  switch (reduction_) {
    case ReduceOp::sum:
    case ReduceOp::avg: return contributes(rank, i) ? static_cast<double>(mixed % 4) : 0;
    case ReduceOp::prod: return contributes(rank, i) ? static_cast<double>(1 + mixed % 2) : 1;
    case ReduceOp::min:
    case ReduceOp::max: break;
  }
  return static_cast<double>(mixed - middle);
}

std::int64_t Pattern::cycle() const { return period * stride_; }

double Pattern::reduce(std::int64_t i) const {
  double result = sent(0, i);
  for (int rank = 1; rank < ranks_; ++rank) {
    const double x = sent(rank, i);
    switch (reduction_) {
      case ReduceOp::sum:
      case ReduceOp::avg: result += x; break;
      case ReduceOp::prod: result *= x; break;
      case ReduceOp::min: result = std::min(result, x); break;
      case ReduceOp::max: result = std::max(result, x); break;
    }
  }
  return reduction_ == ReduceOp::avg ? result / ranks_ : result;
}

std::span<const Collective> collectives() { return all; }

const Collective& collective_named(std::string_view name) {
  return all.at(index_of_name(collective_names(), name));
}

std::vector<std::string_view> collective_names() {
  std::vector<std::string_view> names;
  for (const Collective& c : all) names.push_back(c.name);
  return names;
}

}  // namespace paceline
