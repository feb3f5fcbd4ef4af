// One case of `collectives` on the ranks that take part.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "experiments/collectives/collectives.h"
#include "harness/cache_flush.h"
#include "harness/gather.h"
#include "measure/statistics.h"

namespace paceline {

namespace {

class CollectiveRun final : public CaseRun {
 public:
  CollectiveRun(const CollectiveCase& c, World& world, Device& device, Communicator& communicator,
                double link_ceiling)
      : case_(c),
        world_(world),
        device_(device),
        communicator_(communicator),
        link_ceiling_(link_ceiling) {}

  void set_up(Progress& /*progress*/) override {
    const std::int64_t k = case_.message_bytes() / case_.element_bytes() / communicator_.size();
    const auto allocate = [&](const Shape& shape, Dtype dtype) {
      return case_.is_registered() ? communicator_.allocate(shape, dtype)
                                   : device_.allocate(shape, dtype, MemoryKind::communication);
    };
    const std::int64_t cache = cache_bytes(&device_);
    for (std::int64_t i = 0; i < buffer_sets(case_, cache); ++i) {
      buffers_.emplace_back(device_, allocate, *case_.op, case_.dtype, k, communicator_.rank(),
                            communicator_.size(), case_.is_in_place());
      if (case_.op->reduces) buffers_.back().set_reduction(case_.redop);
    }
    flush_.emplace(device_, case_.cache);
  }
  void agree() override { communicator_.require_free_memory(); }
  void connect() override {
    if (case_.is_registered()) {
      for (const CollectiveBuffers& set : buffers_) {
        for (const Array& memory : set.memory()) {
          registrations_.push_back(communicator_.register_memory(memory));
        }
      }
    }
    check_once("before", 1);
  }
  void start() override {
    for (const CollectiveBuffers& set : buffers_) set.fill(pattern(2));
    capture_again();
  }
  // Seconds per call. host: by the host's clock, enqueueing included; time: by events on the
  // stream.
  [[nodiscard]] std::vector<std::string> phases() const override { return {"host", "time"}; }
  [[nodiscard]] PhaseSeconds repetition() override {
    flush_->enqueue();
    if (flush_->is_cold()) device_.synchronize();
    if (case_.cadence == Cadence::barrier) world_.barrier();
    Stream& stream = communicator_.stream();
    const WatchdogScope watchdog_scope(world_.watchdog(), case_.what());
    const double began = host_seconds();
    std::atomic<bool> enqueued = false;
    // Worker threads of different ranks wake up at different times, and the spread is longer than a
    // small message takes. So all ranks wait in a barrier, after every call is queued and before
    // the first event.
    if (communicator_.backend() == BackendKind::mpi) {
      stream.enqueue([&] {
        while (!enqueued) std::this_thread::yield();
        world_.barrier();
      });
    }
    const EventPtr begin = stream.record();
    if (graph_) {
      graph_->launch();
    } else {
      launch_calls();
    }
    const EventPtr end = stream.record();
    enqueued = true;
    end->synchronize();
    const double host = host_seconds() - began;
    stream.synchronize();  // rethrows exceptions of the worker thread
    PhaseSeconds seconds = {host, end->seconds_since(*begin)};
    for (double& s : seconds) s /= case_.launches();
    return seconds;
  }
  void capture_again() override {
    if (case_.cadence != Cadence::graph) return;
    const WatchdogScope watchdog_scope(world_.watchdog(), "capturing " + case_.what());
    graph_ = device_.capture(communicator_.stream(), [&] { launch_calls(); });
    graph_->instantiate();
  }
  void add_to(CaseRecord& record) override {
    // Check the results of the timed calls. Not for reductions in place: each call has reduced the
    // previous call's results.
    if (!case_.op->reduces || !case_.is_in_place()) {
      for (const CollectiveBuffers& set : buffers_) {
        checks_.emplace_back("timed", set.check(pattern(2)));
      }
    }
    check_once("after", 3);
    add_checks(record);
    if (world_.rank() != 0) return;
    const auto bytes = static_cast<double>(case_.message_bytes());
    const double seconds = summarize(max_over_ranks(record.samples.back().measured)).median;
    const double algbw = bytes / seconds;
    const double busbw = algbw * case_.op->bus.of(case_.ranks);
    record.add("message_bytes", bytes);
    record.add("algbw_bytes_per_s", algbw);
    record.add("busbw_bytes_per_s", busbw);
    record.add("busbw_factor", std::string(case_.op->bus.formula));
    record.add("link_ceiling_bytes_per_s", link_ceiling_);
    record.add("link_share", busbw / link_ceiling_);
  }

 private:
  [[nodiscard]] Pattern pattern(std::int64_t salt) const {
    return {communicator_.size(), case_.op->reduces, case_.redop, salt};
  }
  void check_once(const char* when, std::int64_t salt) {
    const CollectiveBuffers& buffers = buffers_.front();
    buffers.fill(pattern(salt));
    {
      const WatchdogScope watchdog_scope(world_.watchdog(), case_.what());
      case_.op->start(communicator_, buffers.call());
      communicator_.stream().synchronize();
    }
    checks_.emplace_back(when, buffers.check(pattern(salt)));
  }
  void launch_calls() {
    for (int i = 0; i < case_.launches(); ++i) {
      const CollectiveCall call = buffers_[next_++ % buffers_.size()].call();
      const Scope scope(device_.scopes(), case_.op->name,
                        work_of_collective(call.send, communicator_.stream()));
      case_.op->start(communicator_, call);
    }
  }
  // Collective. Sets the status `mismatch` if an element is wrong, or if results that should be
  // bitwise equal on all ranks differ.
  void add_checks(CaseRecord& record) const {
    std::vector<CollectiveCheck> mine;
    for (const auto& [_, check] : checks_) mine.push_back(check);
    const auto all = gather_values(world_, mine);
    if (world_.rank() != 0) return;
    TableRows check("check");
    std::map<std::string, std::int64_t> wrong_when;
    double largest = 0;
    bool differ = false;
    for (std::size_t r = 0; r < all.size(); ++r) {
      for (std::size_t i = 0; i < checks_.size(); ++i) {
        const CollectiveCheck& found = all[r][i];
        const std::string& when = checks_[i].first;
        check.add({{"rank", static_cast<std::int64_t>(r)},
                   {"when", when},
                   {"wrong", found.wrong},
                   {"largest_error", found.largest_error}});
        wrong_when[when] += found.wrong;
        largest = std::max(largest, found.largest_error);
        differ = differ || (case_.op->same_everywhere && found.checksum != all[0][i].checksum);
      }
    }
    record.tables.push_back(check.take());
    std::int64_t max_wrong = 0;  // the largest count of one check, summed over ranks
    for (const auto& [_, count] : wrong_when) max_wrong = std::max(max_wrong, count);
    if (max_wrong > 0 || differ) record.status = Status::mismatch;
    if (max_wrong > 0) {
      record.reason =
          fmt::format("wrong elements: {}, the largest error is {:g}", max_wrong, largest);
    } else if (differ) {
      record.reason = "the results of the ranks are not bitwise equal";
    }
    record.add("wrong_elements", static_cast<double>(max_wrong));
    record.add("largest_error", largest);
  }

  const CollectiveCase& case_;
  World& world_;
  Device& device_;
  Communicator& communicator_;
  double link_ceiling_;
  std::vector<CollectiveBuffers> buffers_;  // used in turn
  std::vector<std::shared_ptr<void>> registrations_;
  std::optional<CacheFlush> flush_;
  std::unique_ptr<Graph> graph_;
  std::size_t next_ = 0;                                         // index into buffers_
  std::vector<std::pair<std::string, CollectiveCheck>> checks_;  // before, timed, after
};

// Collective. The rate, in bytes/s, at which a rank receives a message of about `bytes` bytes: the
// best of five repetitions, each timed on the slowest rank. 0 if a rank runs out of memory.
double receive_rate(const Collective& op, Device& device, World& world, Communicator& communicator,
                    std::int64_t bytes) {
  constexpr int repetitions = 5;
  const std::int64_t k = bytes / static_cast<std::int64_t>(sizeof(float)) / world.size();
  const auto allocate = [&](const Shape& shape, Dtype dtype) {
    return device.allocate(shape, dtype, MemoryKind::communication);
  };
  std::unique_ptr<CollectiveBuffers> buffers;
  Stream& stream = communicator.stream();
  const auto make = [&] {
    buffers = std::make_unique<CollectiveBuffers>(device, allocate, op, Dtype::f32, k, world.rank(),
                                                  world.size(), !op.out_of_place);
    buffers->fill(Pattern(world.size(), false, ReduceOp::sum, 0));
    communicator.require_free_memory();
  };
  const auto connect = [&] {
    const WatchdogScope watchdog_scope(world.watchdog(), "connecting the ranks");
    op.start(communicator, buffers->call());
    stream.synchronize();
  };
  CaseRecord unused;
  if (!fits_in_memory(world, unused, {}, make) || !fits_in_memory(world, unused, {}, connect)) {
    return 0;
  }
  double shortest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repetitions; ++i) {
    world.barrier();
    const WatchdogScope watchdog_scope(world.watchdog(), "measuring the links");
    const EventPtr begin = stream.record();
    op.start(communicator, buffers->call());
    const EventPtr end = stream.record();
    stream.synchronize();
    shortest = std::min(shortest, world.max(end->seconds_since(*begin)));
  }
  return static_cast<double>(buffers->call().recv.bytes()) / shortest;
}

}  // namespace

std::int64_t buffer_sets(const CollectiveCase& c, std::int64_t cache_bytes) {
  if (c.cache == CacheState::warm) return 1;
  const std::int64_t beyond = 2 * cache_bytes / std::max<std::int64_t>(1, c.message_bytes()) + 2;
  return std::min<std::int64_t>(beyond, c.launches());
}

std::unique_ptr<CaseRun> collective_run(const CollectiveCase& c, World& world, Device& device,
                                        Communicator& communicator, double link_ceiling) {
  return std::make_unique<CollectiveRun>(c, world, device, communicator, link_ceiling);
}

double link_ceiling(Device& device, World& world, Communicator& communicator) {
  double best = 0;
  if (world.size() > 1) {
    const int largest = communicator.backend() == BackendKind::nccl ? 30 : 26;
    for (const std::int64_t bytes : {1 << largest, 1 << (largest - 3), 1 << (largest - 6)}) {
      for (const char* op : {"send_recv", "broadcast"}) {
        best =
            std::max(best, receive_rate(collective_named(op), device, world, communicator, bytes));
      }
    }
  }
  return best > 0 ? best : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace paceline
