#include "experiments/training/verify.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <memory>

#include "core/fnv1a.h"
#include "core/random.h"
#include "experiments/training/training_run.h"
#include "harness/case_run.h"
#include "harness/early_end.h"

namespace paceline {

namespace {

constexpr double sgd_learning_rate = 0.1;

// A model that trains on rows of the global batch.
class Trainer {
 public:
  // communicator: null for a single process, which needs no rehearsal. restart() must follow.
  // Throws OutOfMemory.
  Trainer(Device& device, const TrainingCase& c, const Batch& batch, Communicator* communicator,
          Communicator* gathers, bool sgd)
      : device_(device),
        steps_(c.verify),
        step_(device, c, communicator == nullptr ? 1 : communicator->size(),
              store_layout(c, communicator),
              [&](ParameterStore& store, Ops& ops) {
                StrategyConfig config = c.strategy_config();
                if (communicator == nullptr) config.strategy = Strategy::none;
                return make_strategy(config, store, ops, communicator, gathers);
              }),
        runner_(step_, c.timing) {
    if (sgd) {
      step_.optimize_with(std::make_unique<Sgd>(step_.model().store(), sgd_learning_rate,
                                                step_.strategy().shard()));
      // As in measured steps. With AdamW all gradients are kept, because they are compared.
      if (communicator != nullptr && c.recycles_gradients()) step_.recycle_gradients();
    }
    if (communicator == nullptr) return;
    restart(batch);
    step_.strategy().prepare_visits();
    (void)runner_.rehearse();
    step_.rehearse_snapshots();
  }

  [[nodiscard]] ParallelStrategy& strategy() { return step_.strategy(); }

  // Restores the state before the first step and loads these rows.
  void restart(const Batch& batch) {
    step_.load(batch);
    step_.reset();
  }

  // Changes every weight by one unit in the last place, up or down at random.
  void perturb_weights(std::size_t run) {
    constexpr std::uint64_t stream = 1ULL << 41U;  // weights and tokens use other streams
    const Tensor& flat = step_.model().store().parameters();
    std::vector<float> weights = get_floats(device_, flat);
    Random(0, stream + run).for_each(0, weights.size(), [&](std::uint64_t i, double u) {
      weights[i] = std::nextafter(weights[i], u < 0.5 ? -HUGE_VALF : HUGE_VALF);
    });
    put_floats(device_, flat, weights);
  }

  // Runs a separate step for the gradients. A visit may complete gradients that the strategy itself
  // failed to complete; training on from that state would hide the bug.
  [[nodiscard]] Snapshot gradients() {
    step_.launch();
    Snapshot tensors;
    step_.take_gradients(&tensors);
    return tensors;
  }

  // stop_if_asked(), called before every step, throws StoppedError after a stop signal.
  // first_gradients: null, or for a single process, whose gradients are complete by themselves.
  [[nodiscard]] Snapshot train(const std::function<void()>& stop_if_asked,
                               Snapshot* first_gradients = nullptr) {
    for (int k = 0; k < steps_; ++k) {
      stop_if_asked();
      (void)runner_.run();
      if (k == 0 && first_gradients != nullptr) step_.take_gradients(first_gradients);
    }
    Snapshot tensors;
    step_.take_parameters(&tensors);
    return tensors;
  }

 private:
  Device& device_;
  int steps_;
  TrainingStep step_;
  StepRunner runner_;
};

std::uint64_t checksum(const Trained& trained) {
  Fnv1a bits;
  for (const Snapshot* part : {&trained.gradients, &trained.weights}) {
    for (const NamedValues& tensor : *part) {
      for (const float value : tensor.values) bits.add(std::bit_cast<std::uint32_t>(value));
    }
  }
  return bits.sum();
}

// The batch with its rows rotated by `by`.
Batch rotated(const Batch& batch, std::int64_t context, std::int64_t by) {
  Batch moved = batch;
  for (std::vector<std::int32_t>* ids : {&moved.tokens, &moved.targets}) {
    std::rotate(ids->begin(), ids->begin() + by * context, ids->end());
  }
  return moved;
}

void stop_if(bool asked) {
  if (asked) throw StoppedError("stopped by a signal");
}

Prediction predicted_memory(const TrainingCase& c) {
  return {.memory_bytes = memory_form(c.step_shape()).peak()};
}

// Collective. Data-parallel training, each rank on its rows.
Trained train_data_parallel(const TrainingCase& c, World& world, Device& device,
                            const ProcessGroup& data_parallel, bool sgd, CaseRecord& record) {
  device.trim();
  const int rank = data_parallel.communicator->rank();
  const Batch batch = c.rows(rank * c.batch_size, c.batch_size);
  RehearsalCommunicator communicator(*data_parallel.communicator, device.scopes());
  std::optional<RehearsalCommunicator> gathers;
  if (data_parallel.gathers != nullptr) {
    gathers.emplace(*data_parallel.gathers, device.scopes());
  }
  std::unique_ptr<Trainer> trainer;
  const auto make = [&] {
    trainer = std::make_unique<Trainer>(device, c, batch, &communicator,
                                        gathers ? &*gathers : nullptr, sgd);
    communicator.require_free_memory();
  };
  const Prediction predicted = predicted_memory(c);
  if (!fits_in_memory(world, record, predicted, make, WaitLimit::none)) return {};
  const WatchdogScope watchdog_scope(world.watchdog(), "training of --verify");
  const auto connect = [&] {
    trainer->strategy().register_memory();
    communicator.connect();
    if (gathers) gathers->connect();
    trainer->restart(batch);
    trainer->strategy().start();
  };
  if (!fits_in_memory(world, record, predicted, connect)) return {};
  Trained trained;
  if (!sgd) {
    trained.gradients = trainer->gradients();
    trainer->restart(batch);
  }
  trained.weights = trainer->train([&] {
    const Status mine = StopSignal::requested() ? Status::stopped : Status::ok;
    stop_if(world.agree(mine) == Status::stopped);
  });
  return trained;
}

// The case of one process that trains on the rows of all replicas; the same for all cases that
// differ only in how ranks exchange.
TrainingCase on_the_whole_batch(const TrainingCase& c, int replicas) {
  TrainingCase whole = c;
  static_cast<ExchangeFactors&>(whole) = {};
  whole.verify = c.verify;
  static_cast<GatherFactors&>(whole) = {};
  static_cast<SamplerConfig&>(whole) = {};
  whole.batch_size *= replicas;
  whole.ranks = 1;
  return whole;
}

// Collective. Rank 0 trains alone on all rows, several times, and compares the ranks' training with
// the first run. Run 0 has the ranks' order of rows and weights. Later runs, which show the noise,
// rotate the rows of the batch and perturb every weight by one unit in the last place. AdamW
// amplifies rounding where a gradient is near zero, but not in every run, and possibly in the
// ranks' run alone. So runs are added as long as an error exceeds its tolerance.
void compare_with_single_process(const TrainingCase& whole, World& world, Device& device, bool sgd,
                                 const Trained& parallel, SingleProcess::Runs& runs,
                                 TrainingComparison& comparison, CaseRecord& record) {
  constexpr std::size_t most_noise = 11;  // runs
  device.trim();
  const auto compare = [&] {
    if (world.rank() != 0) return;
    const Batch batch = whole.rows(0, whole.batch_size);
    std::unique_ptr<Trainer> trainer;
    const auto train = [&](std::size_t run) {
      if (!trainer)
        trainer = std::make_unique<Trainer>(device, whole, batch, nullptr, nullptr, sgd);
      const auto by = static_cast<std::int64_t>(run) % whole.batch_size;
      trainer->restart(rotated(batch, whole.context, by));
      if (run > 0) trainer->perturb_weights(run);
      Trained trained;
      trained.weights = trainer->train([] { stop_if(StopSignal::requested()); },
                                       sgd ? nullptr : &trained.gradients);
      return trained;
    };
    bool decided = false;
    for (std::size_t n = 0; n < most_noise && !decided; ++n) {
      if (n == runs.noise.size()) {
        if (n == 0) runs.first = train(0);
        Noise noise = n == 0 ? Noise() : runs.noise.back();
        noise.add(train(n + 1), runs.first);
        runs.noise.push_back(std::move(noise));
      }
      const bool allowed = sgd ? comparison.compare_sgd(parallel, runs.first, runs.noise[n])
                               : comparison.compare_adamw(parallel, runs.first, runs.noise[n]);
      decided = allowed || comparison.status() == Status::diverged;
    }
  };
  if (!fits_in_memory(world, record, predicted_memory(whole), compare, WaitLimit::none)) {
    record.reason =
        "--verify: a model that trains on the whole batch does not fit in memory; " + record.reason;
  }
}

}  // namespace

CaseRecord verify_training(TrainingCase c, World& world, Device& device,
                           const ProcessGroup& data_parallel, SingleProcess& single,
                           Progress& progress) {
  // Exchanges do not depend on the length of the rows.
  constexpr std::int64_t most_context = 16;
  c.context = std::min(c.context, most_context);
  const TrainingCase whole = on_the_whole_batch(c, data_parallel.world.size());
  // Snapshots of a larger model would stay in the host's memory while its case is measured.
  constexpr std::int64_t most_kept = std::int64_t{1} << 27U;  // parameters
  SingleProcess own;
  SingleProcess& alone = whole.model().parameters() <= most_kept ? single : own;
  if (alone.of != whole) alone = {whole, {}, {}};
  CaseRecord record;
  TrainingComparison comparison;
  for (const bool sgd : {true, false}) {
    progress.update(sgd ? "verify: SGD" : "verify: AdamW");
    Trained parallel = train_data_parallel(c, world, device, data_parallel, sgd, record);
    if (record.status == Status::ok) {
      const std::string sum = std::to_string(checksum(parallel));
      if (world.max(world.broadcast(sum, 0) == sum ? 0 : 1) > 0) comparison.ranks_differ();
      if (world.rank() != 0) parallel = {};
    }
    if (record.status == Status::ok) {
      compare_with_single_process(whole, world, device, sgd, parallel,
                                  sgd ? alone.sgd : alone.adamw, comparison, record);
    }
    if (record.status != Status::ok) return record;
  }
  if (world.rank() == 0) {
    comparison.add_to(record);
    record.status = comparison.status();
    if (record.status != Status::ok) record.reason = comparison.reason();
  }
  record.status = world.agree(record.status);
  return record;
}

}  // namespace paceline
