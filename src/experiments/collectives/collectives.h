#pragma once
// `paceline collectives`: one sweep over backends, operations, sizes and rank counts. Rank counts
// below the world's are sub-communicators of the same launch, whose other ranks wait idle.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/communicator.h"
#include "experiments/collectives/collective_check.h"
#include "harness/experiment.h"
#include "measure/sampler.h"

namespace paceline {

// Where buffers live and what moves them: of the first `ranks` ranks; the others have neither.
struct Backend {
  std::string name;  // "mpi", "nccl"
  std::unique_ptr<Device> device;
  MakeCommunicator make_communicator;
  int ranks = 0;
  std::string lack;  // why they are not all ranks
};

class CollectivesExperiment final : public Experiment {
 public:
  // backends: both, mpi and nccl.
  CollectivesExperiment(const Options& options, World& world, std::vector<Backend> backends);

  [[nodiscard]] std::string name() const override { return "collectives"; }
  [[nodiscard]] std::vector<Case> cases() const override;
  [[nodiscard]] std::vector<std::string> naming_factors() const override;
  [[nodiscard]] Prediction predict(const Case& c) const override;
  void validate(const Case& c) const override;
  [[nodiscard]] CaseRecord run(const Case& c, Progress& progress) override;
  [[nodiscard]] std::vector<ShownColumn> shown_columns() const override;
  [[nodiscard]] std::string notes() const override;
  [[nodiscard]] std::vector<Table> closing_tables(
      const std::vector<std::vector<Column>>& rows) const override;

 private:
  // The ranks of a case; empty on the others.
  struct Members {
    std::unique_ptr<World> world;
    std::map<std::string, std::unique_ptr<Communicator>> communicators;  // by backend
    std::map<std::string, double> link_ceilings;                         // bytes/s, by backend
  };
  struct Buffers {
    std::vector<CollectiveBuffers> sets;  // used in turn
    Array flush;                          // of cold cases: written before each repetition
  };
  // What one rank measured.
  struct Outcome {
    Samples samples;
    std::vector<std::pair<std::string, CollectiveCheck>> checks;  // before, timed, after
  };

  // --bytes rounded down to a multiple of the ranks times the dtype, or times 16 bytes where the
  // buffers are registered.
  [[nodiscard]] static std::int64_t message_bytes(const Case& c);
  [[nodiscard]] static std::int64_t element_bytes(const Case& c);
  [[nodiscard]] static std::string what(const Case& c);
  [[nodiscard]] std::int64_t cache_bytes(const Case& c) const;
  [[nodiscard]] std::int64_t buffer_sets(const Case& c) const;
  [[nodiscard]] std::int64_t flush_bytes(const Case& c) const;
  static void check_count(const Case& c);
  [[nodiscard]] const Backend& backend_of(const Case& c) const;
  [[nodiscard]] std::string reason_to_skip(const Case& c) const;
  // Collective over all ranks.
  [[nodiscard]] Members& members_of(const Backend& backend, int ranks);

  // Collective over the members.
  [[nodiscard]] Buffers make_buffers(const Case& c, const Backend& backend,
                                     Communicator& communicator) const;
  [[nodiscard]] CaseRecord measure(const Case& c, const Backend& backend, Members& members,
                                   Progress& progress);
  void sample(const Case& c, const Backend& backend, Members& members, const Buffers& buffers,
              Outcome& outcome, Progress& progress);
  [[nodiscard]] CollectiveCheck check(World& world, Communicator& communicator,
                                      const CollectiveBuffers& buffers, const Case& c,
                                      std::int64_t salt) const;
  [[nodiscard]] double link_ceiling(const Backend& backend, Members& members);
  void add_outcome(CaseRecord& record, const Outcome& outcome, World& world,
                   double link_ceiling) const;

  const Options& options_;
  World& world_;
  std::vector<Backend> backends_;
  std::map<int, Members> members_;  // by number of ranks
};

}  // namespace paceline
