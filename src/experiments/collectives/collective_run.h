#pragma once
// One case of `collectives` on the ranks that take part: buffers, checks, timed calls.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/communicator.h"
#include "core/world.h"
#include "experiments/collectives/collective_case.h"
#include "experiments/collectives/collective_check.h"
#include "harness/cache_flush.h"
#include "harness/case_run.h"

namespace paceline {

// Buffer sets that calls use in turn. Warm: 1. Cold: one for every call of a repetition, or fewer
// that together exceed twice the cache.
[[nodiscard]] std::int64_t buffer_sets(const CollectiveCase& c, std::int64_t cache_bytes);

class CollectiveRun final : public CaseRun {
 public:
  // world: the ranks that take part. link_ceiling: bytes/s.
  CollectiveRun(const CollectiveCase& c, World& world, Device& device, Communicator& communicator,
                double link_ceiling)
      : case_(c),
        world_(world),
        device_(device),
        communicator_(communicator),
        link_ceiling_(link_ceiling) {}

  void set_up(Progress& progress) override;
  void agree() override { communicator_.require_free_memory(); }
  void connect() override;
  void start() override;
  // Seconds per call. host: by the host's clock, enqueueing included; time: by events on the
  // stream.
  [[nodiscard]] std::vector<std::string> phases() const override { return {"host", "time"}; }
  [[nodiscard]] PhaseSeconds repetition() override;
  void capture_again() override;
  void add_to(CaseRecord& record) override;

 private:
  [[nodiscard]] Pattern pattern(std::int64_t salt) const;
  void check_once(const char* when, std::int64_t salt);
  void launch_calls();
  void add_checks(CaseRecord& record) const;

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

}  // namespace paceline
