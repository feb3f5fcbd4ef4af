#pragma once
// `paceline ddp`: data-parallel training. Every rank runs its rows of the global batch; gradients
// are averaged over ranks, by strategies that differ in what they send together and when. `zero`
// derives from it and shards the optimizer.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/communicator.h"
#include "experiments/training/model.h"
#include "experiments/training/verification.h"

namespace paceline {

class DdpExperiment : public ModelExperiment {
 public:
  // communicator: of all ranks, on the device.
  DdpExperiment(const Options& options, World& world, Device& device, Communicator& communicator);

  [[nodiscard]] std::string name() const override { return "ddp"; }
  [[nodiscard]] std::vector<Case> cases() const override;
  [[nodiscard]] std::vector<std::string> naming_factors() const override;
  void validate(const Case& c) const override;
  [[nodiscard]] std::vector<ShownColumn> shown_columns() const override;
  [[nodiscard]] std::string notes() const override;
  // --predict: the bucket equation beside the measured sweep.
  [[nodiscard]] std::vector<Table> closing_tables(
      const std::vector<std::vector<Column>>& rows) const override;

 protected:
  [[nodiscard]] Communicator& communicator() const { return communicator_; }
  // The values of --registration, where it is not given those of this launch.
  [[nodiscard]] std::vector<std::string> registrations() const;
  // Of the case's factors; the strategy is bucketed.
  [[nodiscard]] static SyncConfig sync_config(const Case& c);

 private:
  [[nodiscard]] std::unique_ptr<GradientSync> make_exchange(const Case& c,
                                                            TrainingStep& step) override;
  // --verify: gradients and weights are those of a single process that trains on the whole batch.
  // Every rank trains its rows; then rank 0 trains all of them, several times, while the others
  // wait.
  void verify(CaseRecord& record, Progress& progress) override;
  [[nodiscard]] Trained train_together(const Case& c, bool sgd, Status& status);
  [[nodiscard]] std::vector<Trained> train_alone(const Case& c, bool sgd, Status& status);
  // Throws UsageError when the file of --predict says nothing of the case's all_reduce.
  void check_prediction(const Case& c) const;
  [[nodiscard]] StoreLayout store_layout(const Case& c) const override;
  [[nodiscard]] Status with_memory(const std::function<void()>& work);

  Communicator& communicator_;
};

}  // namespace paceline
