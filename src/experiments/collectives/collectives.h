#pragma once
// `paceline collectives`: one sweep over backends, operations, sizes and rank counts. A case with
// fewer ranks than the launch runs on a subgroup while the other ranks wait idle.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/communicator.h"
#include "experiments/collectives/collective_case.h"
#include "harness/experiment.h"
#include "harness/launch.h"

namespace paceline {

// The factors and the command's other options.
struct CollectivesOptions {
  FactorOptions<CollectiveCase> factors{collective_case_factors()};
  bool all_backends = true;  // --backend is not given: use every available backend
  bool fit = false;
};

class CollectivesExperiment final : public ExperimentOf<CollectiveCase> {
 public:
  // backends: indexed by BackendKind. Throws UsageError for an option that applies to no case.
  CollectivesExperiment(const CollectivesOptions& options, World& world,
                        std::vector<Backend> backends);

  [[nodiscard]] std::string name() const override { return "collectives"; }
  [[nodiscard]] std::vector<ShownColumn> shown_columns() const override;
  [[nodiscard]] std::string notes() const override;
  // --fit: latency and bandwidth of each sweep over sizes.
  [[nodiscard]] std::vector<Table> closing_tables(
      const std::vector<SummaryRow>& rows) const override;

 private:
  // The subgroup of the ranks that take part; empty on the other ranks.
  struct Members {
    std::unique_ptr<World> world;
    std::map<BackendKind, std::unique_ptr<Communicator>> communicators;
    std::map<BackendKind, double> link_ceilings;  // bytes/s
  };

  [[nodiscard]] Prediction prediction(const CollectiveCase& c) const override;
  void check(const CollectiveCase& c) const override;
  [[nodiscard]] std::string reason_to_skip(const CollectiveCase& c) const override;
  [[nodiscard]] std::size_t device_memory(const CollectiveCase& c) const override;
  [[nodiscard]] CaseRecord measure(const CollectiveCase& c, Progress& progress) override;

  [[nodiscard]] const Backend& backend_of(const CollectiveCase& c) const;
  // Throws UsageError if the sweep over --bytes that `c` is part of cannot be fitted.
  void check_fit(const CollectiveCase& c) const;
  // Collective over all ranks.
  [[nodiscard]] Members& members_of(int ranks);
  // Collective over members.world.
  [[nodiscard]] CaseRecord measure_among(Members& members, const CollectiveCase& c,
                                         Progress& progress);

  const CollectivesOptions& options_;
  World& world_;
  std::vector<Backend> backends_;
  std::map<int, Members> members_;  // by number of ranks
};

}  // namespace paceline
