#include "experiments/collectives/collective.h"

#include <algorithm>
#include <array>
#include <string>

#include "core/communicator.h"
#include "core/error.h"

namespace paceline {

namespace {

using Call = CollectiveCall;
using Index = std::int64_t;  // i: element index; k: elements per rank

constexpr int root = 0;

constexpr BusFactor twice_ring = {"2 (n - 1) / n", [](double n) { return 2 * ring_share(n); }};
constexpr BusFactor ring = {"(n - 1) / n", [](double n) { return ring_share(n); }};
constexpr BusFactor one = {"1", [](double /*n*/) { return 1.0; }};

// Rank r sends to r + 1 and receives from r - 1.
int next(int rank, int n) { return (rank + 1) % n; }
int previous(int rank, int n) { return (rank + n - 1) % n; }

const std::array<Collective, 7> all_collectives = {{
    {.name = "all_reduce",
     .reduces = true,
     .same_everywhere = true,
     .bus = twice_ring,
     .start = [](Communicator& c, const Call& x) { c.all_reduce(x.recv, x.send, x.reduction); },
     .expected = [](const Pattern& p, int, Index i, Index) { return p.reduced(i); }},
    {.name = "reduce_scatter",
     .reduces = true,
     .recv_is_whole = false,
     .bus = ring,
     .start = [](Communicator& c, const Call& x) { c.reduce_scatter(x.recv, x.send, x.reduction); },
     .expected = [](const Pattern& p, int rank, Index i,
                    Index k) { return p.reduced(rank * k + i); }},
    {.name = "all_gather",
     .send_is_whole = false,
     .same_everywhere = true,
     .bus = ring,
     .start = [](Communicator& c, const Call& x) { c.all_gather(x.recv, x.send); },
     .expected = [](const Pattern& p, int, Index i,
                    Index k) { return p.sent(static_cast<int>(i / k), i % k); }},
    {.name = "broadcast",
     .out_of_place = false,
     .same_everywhere = true,
     .bus = one,
     .start = [](Communicator& c, const Call& x) { c.broadcast(x.recv, root); },
     .expected = [](const Pattern& p, int, Index i, Index) { return p.sent(root, i); }},
    {.name = "reduce",
     .reduces = true,
     .only_root = true,
     .bus = one,
     .start = [](Communicator& c, const Call& x) { c.reduce(x.recv, x.send, x.reduction, root); },
     .expected = [](const Pattern& p, int, Index i, Index) { return p.reduced(i); }},
    {.name = "all_to_all",
     .in_place = false,
     .bus = ring,
     .start = [](Communicator& c, const Call& x) { c.all_to_all(x.recv, x.send); },
     .expected = [](const Pattern& p, int rank, Index i,
                    Index k) { return p.sent(static_cast<int>(i / k), rank * k + i % k); }},
    {.name = "send_recv",
     .in_place = false,
     .bus = one,
     .start =
         [](Communicator& c, const Call& x) {
           c.send_recv(x.recv, previous(c.rank(), c.size()), x.send, next(c.rank(), c.size()));
         },
     .expected = [](const Pattern& p, int rank, Index i,
                    Index) { return p.sent(previous(rank, p.ranks()), i); }},
}};

constexpr std::int64_t period = 251;
constexpr std::int64_t middle = period / 2;

// bfloat16 represents integers up to 256 exactly: sums of 64 numbers up to 3, products of 8 numbers
// up to 2. With more ranks, only this many contribute to an element; the others send the neutral
// element.
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

std::span<const Collective> collectives() { return all_collectives; }

const Collective& collective_named(std::string_view name) {
  return all_collectives.at(index_of_name(collective_names(), name));
}

std::vector<std::string_view> collective_names() {
  std::vector<std::string_view> names;
  for (const Collective& c : all_collectives) names.push_back(c.name);
  return names;
}

}  // namespace paceline
