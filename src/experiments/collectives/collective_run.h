#pragma once
// One case of `collectives` on its ranks: buffers, checks, timed calls.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/communicator.h"
#include "core/world.h"
#include "experiments/collectives/collective_case.h"
#include "experiments/collectives/collective_check.h"
#include "harness/case_run.h"

namespace paceline {

// Bytes of the last-level cache; what is taken for them where that is not known, or without a
// device.
[[nodiscard]] std::int64_t cache_bytes(const Device* device);
// Cold: every call of a repetition has one of its own, or as many as go beyond the cache.
[[nodiscard]] std::int64_t buffer_sets(const CollectiveCase& c, std::int64_t cache_bytes);
// Cold: written before each repetition.
[[nodiscard]] std::int64_t flush_bytes(const CollectiveCase& c, std::int64_t cache_bytes);

class CollectiveRun final : public CaseRun {
 public:
  // world: the ranks of the case. link_ceiling: bytes/s.
  CollectiveRun(const CollectiveCase& c, World& world, Device& device, Communicator& communicator,
                double link_ceiling)
      : case_(c),
        world_(world),
        device_(device),
        communicator_(communicator),
        link_ceiling_(link_ceiling) {}

  void set_up(Progress& progress) override;
  void connect() override;
  void start() override;
  // host: by the host's clock, from the first call on; time: by events, of one call.
  [[nodiscard]] std::vector<std::string> phases() const override { return {"host", "time"}; }
  [[nodiscard]] PhaseSeconds repetition() override;
  void capture_again() override;
  void add_to(CaseRecord& record) override;

 private:
  // salt: a check must not pass on the results of the one before.
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
  Array flush_;
  std::unique_ptr<Graph> graph_;
  std::size_t next_ = 0;                                         // of the buffers
  std::vector<std::pair<std::string, CollectiveCheck>> checks_;  // before, timed, after
};

}  // namespace paceline
