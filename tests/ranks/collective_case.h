#pragma once
// Every collective at one size, dtype and placement, against its formula.

#include <bit>
#include <cstdint>
#include <string>

#include "core/communicator.h"
#include "tests/ranks/collective_values.h"
#include "tests/ranks/guarded_buffer.h"

namespace paceline {

// Waits for all collectives so far; rethrows.
inline void wait() { shared.all->stream().synchronize(); }

struct TestedCollective {
  Communicator& c;
  Dtype dtype;
  std::int64_t k;
  bool in_place;
  int n = c.size();
  int rank = c.rank();

  [[nodiscard]] std::string str() const {
    return std::string(name_of(dtype)) + ", " + std::to_string(k) + " elements, rank " +
           std::to_string(rank) + " of " + std::to_string(n) + (in_place ? ", in place" : "");
  }
  [[nodiscard]] Formula mine(ReduceOp op) const {
    return [this, op](std::int64_t i) { return input(op, dtype, n, rank, i); };
  }
  [[nodiscard]] Formula result(ReduceOp op, std::int64_t first = 0) const {
    return [this, op, first](std::int64_t i) { return reduced(op, dtype, n, first + i); };
  }
  // NCCL multiplies by 1 / n before it adds, which rounds unless n is a power of two.
  [[nodiscard]] double allowed(ReduceOp op) const {
    const bool rounds = c.backend() == BackendKind::nccl && op == ReduceOp::avg &&
                        dtype != Dtype::i32 && !std::has_single_bit(static_cast<unsigned>(n));
    return rounds ? (n + 2) * unit_roundoff(dtype) * n * largest_input : 0;
  }
  [[nodiscard]] Formula moved_by(int from, std::int64_t first = 0) const {
    return [from, first](std::int64_t i) { return moved(from, first + i); };
  }

  void all_reduce(ReduceOp op) const {
    const Buffer send(dtype, k);
    const Buffer other(dtype, k);
    const Tensor recv = in_place ? send : other;
    fill(send, mine(op));
    c.all_reduce(recv, send, op);
    wait();
    expect("all_reduce", recv, result(op), allowed(op));
    if (!in_place) expect("all_reduce's input", send, mine(op));
  }

  void reduce_scatter(ReduceOp op) const {
    const Buffer send(dtype, n * k);
    const Buffer other(dtype, k);
    const Tensor recv = in_place ? send.part(rank, k) : other;
    fill(send, mine(op));
    c.reduce_scatter(recv, send, op);
    wait();
    expect("reduce_scatter", recv, result(op, rank * k), allowed(op));
    if (!in_place) expect("reduce_scatter's input", send, mine(op));
  }

  void reduce(ReduceOp op, int root) const {
    const Buffer send(dtype, k);
    const Buffer other(dtype, k);
    const Tensor recv = in_place ? send : other;
    fill(send, mine(op));
    // With every other dtype, the ranks without a result pass an empty tensor.
    const bool none = rank != root && (dtype == Dtype::f32 || dtype == Dtype::i32);
    c.reduce(none ? Tensor{} : recv, send, op, root);
    wait();
    if (rank == root) expect("reduce", recv, result(op), allowed(op));
    if (!in_place || rank != root) expect("reduce's input", send, mine(op));
    if (!in_place && rank != root) other.expect_untouched();
  }

  void all_gather() const {
    const Buffer recv(dtype, n * k);
    const Buffer other(dtype, k);
    const Tensor send = in_place ? recv.part(rank, k) : other;
    fill(send, moved_by(rank));
    c.all_gather(recv, send);
    wait();
    for (int from = 0; from < n; ++from) expect("all_gather", recv.part(from, k), moved_by(from));
    if (!in_place) expect("all_gather's input", send, moved_by(rank));
  }

  void broadcast(int root) const {
    const Buffer data(dtype, k);
    if (rank == root) fill(data, moved_by(root));
    c.broadcast(data, root);
    wait();
    expect("broadcast", data, moved_by(root));
  }

  void all_to_all() const {
    const Buffer send(dtype, n * k);
    const Buffer other(dtype, n * k);
    const Buffer& recv = in_place ? send : other;
    fill(send, moved_by(rank));
    c.all_to_all(recv, send);
    wait();
    for (int from = 0; from < n; ++from) {
      expect("all_to_all", recv.part(from, k), moved_by(from, rank * k));
    }
    if (!in_place) expect("all_to_all's input", send, moved_by(rank));
  }

  void send_recv(int distance) const {
    const Buffer send(dtype, k);
    const Buffer other(dtype, k);
    const Tensor recv = in_place ? send : other;
    const int source = (rank + n - distance) % n;
    fill(send, moved_by(rank));
    c.send_recv(recv, source, send, (rank + distance) % n);
    wait();
    expect("send_recv", recv, moved_by(source));
    if (!in_place) expect("send_recv's input", send, moved_by(rank));
  }

  void reductions(ReduceOp op) const {
    SCOPED_TRACE(str() + ", " + std::string(name_of(op)));
    all_reduce(op);
    reduce_scatter(op);
    reduce(op, 0);
    reduce(op, n - 1);
  }

  void moves() const {
    SCOPED_TRACE(str());
    all_gather();
    all_to_all();
    for (const int distance : {0, 1, n - 1}) send_recv(distance % n);
    for (const int root : {0, n - 1}) broadcast(root);
  }
};

}  // namespace paceline
