#include "experiments/collectives/collective.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>

#include "core/communicator.h"
#include "core/error.h"
#include "core/fnv1a.h"

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

constexpr std::int64_t piece = 1 << 20;  // elements on the host at a time

template <class F>
decltype(auto) dispatch_any(Dtype d, F&& f) {
  if (d == Dtype::i32) return f.template operator()<std::int32_t>();
  return dispatch_floating(d, f);
}

// Relative to the exact result. For averages NCCL multiplies by 1 / n before it adds: the factor,
// one product per contributing rank and the sums are rounded.
double tolerance(Dtype dtype, ReduceOp reduction, const Pattern& pattern) {
  return reduction == ReduceOp::avg ? (pattern.terms() + 2) * unit_roundoff(dtype) : 0;
}

// The type through which T is converted: half types convert only from and to float.
template <class T>
using Converts = std::conditional_t<sizeof(T) == 2, float, T>;

// x[i] = of_element(i), which has period `cycle`: a multiple of the period is computed once and
// copied repeatedly.
template <class F>
void write(Device& device, const Tensor& x, std::int64_t cycle, F of_element) {
  dispatch_any(x.dtype, [&]<class T>() {
    const std::int64_t length =
        std::min(x.numel(), cycle * std::max<std::int64_t>(1, piece / cycle));
    std::vector<T> host(static_cast<std::size_t>(length));
    for (std::int64_t i = 0; i < length; ++i) {
      host[static_cast<std::size_t>(i)] = static_cast<T>(static_cast<Converts<T>>(of_element(i)));
    }
    for (std::int64_t first = 0; first < x.numel(); first += length) {
      device.to_device(x.slice(first, {std::min(length, x.numel() - first)}), host.data());
    }
  });
}

void poison(Device& device, const Tensor& x) {
  const double value = x.dtype == Dtype::i32 ? std::numeric_limits<std::int32_t>::min()
                                             : std::numeric_limits<double>::quiet_NaN();
  write(device, x, 1, [value](std::int64_t) { return value; });
}

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;

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

CollectiveBuffers::CollectiveBuffers(Device& device, const Allocate& allocate,
                                     const Collective& collective, Dtype dtype, std::int64_t k,
                                     int rank, int ranks, bool in_place)
    : device_(device), collective_(collective), k_(k), rank_(rank) {
  const auto buffer = [&](bool whole) { return allocate({whole ? ranks * k : k}, dtype); };
  recv_ = buffer(in_place || collective.recv_is_whole);
  if (!in_place) send_ = buffer(collective.send_is_whole);
  const auto placed = [&](const Tensor& memory, bool whole) {
    return whole || !in_place ? memory : memory.slice(rank * k, {k});
  };
  call_ = {.recv = placed(recv_, collective.recv_is_whole),
           .send = placed(in_place ? recv_ : send_, collective.send_is_whole)};
}

std::vector<Array> CollectiveBuffers::memory() const {
  if (send_.tensor().data == nullptr) return {recv_};
  return {recv_, send_};
}

void CollectiveBuffers::fill(const Pattern& pattern) const {
  poison(device_, recv_);
  // The receivers of a broadcast send nothing; their buffer keeps the NaNs.
  const bool only_receives = call_.recv.data == call_.send.data && !collective_.reduces &&
                             collective_.send_is_whole && rank_ != 0;
  if (only_receives) return;
  write(device_, call_.send, pattern.cycle(),
        [&](std::int64_t i) { return pattern.sent(rank_, i); });
}

CollectiveCheck CollectiveBuffers::check(const Pattern& pattern) const {
  CollectiveCheck result;
  if (collective_.only_root && rank_ != 0) return result;
  const Tensor& x = call_.recv;
  const double allowed = tolerance(x.dtype, call_.reduction, pattern);
  const bool whole_numbers = x.dtype == Dtype::i32;
  Fnv1a bits;
  dispatch_any(x.dtype, [&]<class T>() {
    std::vector<T> host;
    for (std::int64_t first = 0; first < x.numel(); first += piece) {
      host.resize(static_cast<std::size_t>(std::min(piece, x.numel() - first)));
      const auto n = static_cast<std::int64_t>(host.size());
      device_.to_host(host.data(), x.slice(first, {n}));
      std::int64_t wrong = 0;
      double largest = 0;
#pragma omp parallel for schedule(static) reduction(+ : wrong) reduction(max : largest)
      for (std::int64_t i = 0; i < n; ++i) {
        double want = collective_.expected(pattern, rank_, first + i, k_);
        if (whole_numbers) want = std::trunc(want);
        const double got = static_cast<Converts<T>>(host[static_cast<std::size_t>(i)]);
        const double error = std::abs(got - want);
        if (error <= allowed * std::abs(want)) continue;
        ++wrong;
        largest =
            std::max(largest, std::isnan(error) ? std::numeric_limits<double>::infinity() : error);
      }
      result.wrong += wrong;
      result.largest_error = std::max(result.largest_error, largest);
      for (const T& value : host) bits.add(std::bit_cast<BitsOf<T>>(value));
    }
  });
  result.checksum = bits.sum();
  return result;
}

}  // namespace paceline
