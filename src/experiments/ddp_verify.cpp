// --verify: trains in parallel, then in a single process, one model in memory at a time.

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "core/fnv1a.h"
#include "core/random.h"
#include "experiments/attention_factors.h"
#include "experiments/ddp.h"
#include "experiments/verification.h"
#include "parallel/no_sync.h"

namespace paceline {

namespace {

constexpr double sgd_learning_rate = 0.1;

// A model that trains on rows of the global batch.
class Trainer {
 public:
  // Throws OutOfMemory.
  Trainer(Device& device, const StepShape& shape, const OpsConfig& ops, const Options& options,
          const Batch& batch, StoreLayout layout)
      : device_(device),
        step_(device, shape, ops, options.model, static_cast<std::uint64_t>(options.run.seed),
              std::move(layout)) {
    step_.load(batch);
  }

  [[nodiscard]] TrainingStep& step() { return step_; }

  // Throws OutOfMemory.
  void prepare(bool sgd, Shard shard) {
    if (sgd) {
      step_.optimize_with(
          std::make_unique<Sgd>(step_.model().store(), sgd_learning_rate, std::move(shard)));
    } else {
      step_.optimize(std::move(shard));
    }
    step_.reset();
    NoSync alone;
    (void)step_.rehearse(alone);
  }

  void restart(const Batch& batch) {
    step_.load(batch);
    step_.reset();
  }

  // Moves every weight to the next float above or below.
  void nudge_weights(std::uint64_t stream) {
    const Tensor& flat = step_.model().store().parameters();
    std::vector<float> weights(static_cast<std::size_t>(flat.numel()));
    device_.to_host(weights.data(), flat);
    Random(0, stream).for_each(0, weights.size(), [&](std::uint64_t i, double u) {
      if (weights[i] == 0) return;  // padding is 0 and stays it
      weights[i] = std::nextafter(weights[i], u < 0.5 ? -HUGE_VALF : HUGE_VALF);
    });
    device_.to_device(flat, weights.data());
  }

  // gather: gives every rank all gradients and weights.
  Trained train(int steps, ParameterSync& sync, const std::function<void()>& gather) {
    const ParameterStore& store = step_.model().store();
    Trained trained;
    for (int k = 0; k < steps; ++k) {
      (void)step_.run(sync);
      if (k > 0) continue;
      gather();
      trained.gradients = snapshot(store.gradients());
    }
    gather();
    trained.weights = snapshot(store.parameters());
    return trained;
  }

 private:
  [[nodiscard]] Snapshot snapshot(const Tensor& flat) {
    const ParameterStore& store = step_.model().store();
    Snapshot tensors;
    for (const ParameterEntry& entry : store.entries()) {
      for (const ParameterView& view : entry.views) {
        const Tensor x = store.slice(flat, entry, view);
        tensors.push_back({view.name, std::vector<float>(static_cast<std::size_t>(x.numel()))});
        device_.to_host(tensors.back().values.data(), x);
      }
    }
    return tensors;
  }

  Device& device_;
  TrainingStep step_;
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

// The batch with its rows in another order: rotated by `by`.
Batch rotated(const Batch& batch, std::int64_t context, std::int64_t by) {
  Batch moved = batch;
  for (std::vector<std::int32_t>* ids : {&moved.tokens, &moved.targets}) {
    std::rotate(ids->begin(), ids->begin() + by * context, ids->end());
  }
  return moved;
}

}  // namespace

Trained DdpExperiment::train_together(const Case& c, bool sgd, Status& status) {
  device().trim();
  const StepShape shape = shape_of(c);
  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<GradientSync> exchange;
  status = with_memory([&] {
    const Batch batch = batch_of(c, world().rank() * shape.batch, shape.batch);
    trainer = std::make_unique<Trainer>(device(), shape, ops_config_of(c), options(), batch,
                                        store_layout(c));
    exchange = make_exchange(c, trainer->step());
    trainer->step().mean_over(world().size());
    trainer->prepare(sgd, exchange->shard());
  });
  if (status != Status::ok) return {};
  exchange->start();
  const auto watched = watched_calls(communicator_, world().watch(), "training of --verify");
  return trainer->train(static_cast<int>(c.integer("verify")), *exchange,
                        [&] { exchange->gather(); });
}

// The first run is the ranks' training in one process. Each further one rotates the batch's rows
// and moves every weight to a neighbouring float.
std::vector<Trained> DdpExperiment::train_alone(const Case& c, bool sgd, Status& status) {
  constexpr int runs = 3;
  device().trim();
  StepShape whole = shape_of(c);
  whole.batch *= world().size();
  std::vector<Trained> trained;
  status = with_memory([&] {
    if (world().rank() != 0) return;
    const Batch batch = batch_of(c, 0, whole.batch);
    Trainer trainer(device(), whole, ops_config_of(c), options(), batch, {});
    trainer.prepare(sgd, Shard::whole(trainer.step().model().store()));
    NoSync alone;
    for (int run = 0; run < runs; ++run) {
      if (run > 0) {
        trainer.restart(rotated(batch, whole.model.context, run % whole.batch));
        trainer.nudge_weights(static_cast<std::uint64_t>(run));
      }
      trained.push_back(trainer.train(static_cast<int>(c.integer("verify")), alone, [] {}));
    }
  });
  return trained;
}

void DdpExperiment::verify(CaseRecord& record, Progress& progress) {
  const Case& c = record.factors;
  if (c.integer("verify") == 0) return;
  Verification verification;
  for (const bool sgd : {true, false}) {
    progress.update(sgd ? "verify: SGD" : "verify: AdamW", sgd ? 0 : 0.5);
    Trained together = train_together(c, sgd, record.status);
    if (record.status == Status::ok) {
      const std::string sum = std::to_string(checksum(together));
      if (world().max(world().broadcast(sum, 0) == sum ? 0 : 1) > 0) verification.ranks_differ();
      if (world().rank() != 0) together = {};
    }
    std::vector<Trained> alone;
    if (record.status == Status::ok) alone = train_alone(c, sgd, record.status);
    if (record.status != Status::ok) {
      record.reason = "--verify: a model that trains on the whole batch does not fit in memory";
      return;
    }
    if (world().rank() != 0) continue;
    sgd ? verification.add_sgd(together, alone) : verification.add_adamw(together, alone);
  }
  if (world().rank() == 0) {
    verification.add_to(record);
    record.status = verification.status();
    if (record.status != Status::ok) record.reason = verification.reason();
  }
  record.status = world().agree(record.status);
}

// Runs `work`, which allocates, on every rank; oom when any lacked memory.
Status DdpExperiment::with_memory(const std::function<void()>& work) {
  Status status = Status::ok;
  std::optional<Error> failed;
  try {
    work();
  } catch (const OutOfMemory&) {
    status = Status::oom;
  } catch (const Error& error) {
    failed.emplace(error);
  }
  world().wait_idle();  // one rank may have much to do
  collectively(world(), [&] {
    if (failed) throw *failed;
  });
  return world().agree(status);
}

}  // namespace paceline
