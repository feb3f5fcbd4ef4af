// --verify: trains in parallel, then in a single process, one model in memory at a time.

#include <algorithm>
#include <bit>
#include <cmath>
#include <new>
#include <optional>

#include "core/fnv1a.h"
#include "core/random.h"
#include "experiments/attention/attention_factors.h"
#include "experiments/training/ddp.h"
#include "experiments/training/verification.h"
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

  // As before the first step, on these rows.
  void restart(const Batch& batch) {
    step_.load(batch);
    step_.reset();
  }

  // Moves every weight by one unit in the last place, up or down.
  void perturb_weights(int run) {
    constexpr std::uint64_t stream = 1ULL << 41U;  // weights and tokens are drawn from others
    const Tensor& flat = step_.model().store().parameters();
    std::vector<float> weights(static_cast<std::size_t>(flat.numel()));
    device_.to_host(weights.data(), flat);
    Random(0, stream + static_cast<std::uint64_t>(run))
        .for_each(0, weights.size(), [&](std::uint64_t i, double u) {
          if (weights[i] == 0) return;  // padding must remain 0
          weights[i] = std::nextafter(weights[i], u < 0.5 ? -HUGE_VALF : HUGE_VALF);
        });
    device_.to_device(flat, weights.data());
  }

  // gather: gives every rank all gradients and weights. A step of its own: training with what
  // gather() has put right would hide a strategy that does not do so itself.
  [[nodiscard]] Snapshot gradients(ParameterSync& sync, const std::function<void()>& gather) {
    (void)step_.run(sync);
    gather();
    return snapshot(step_.model().store().gradients());
  }

  [[nodiscard]] Snapshot train(int steps, ParameterSync& sync,
                               const std::function<void()>& gather) {
    for (int k = 0; k < steps; ++k) (void)step_.run(sync);
    gather();
    return snapshot(step_.model().store().parameters());
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
  const Batch batch = batch_of(c, world().rank() * shape.batch, shape.batch);
  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<GradientSync> exchange;
  status = with_memory([&] {
    trainer = std::make_unique<Trainer>(device(), shape, ops_config_of(c), options(), batch,
                                        store_layout(c));
    exchange = make_exchange(c, trainer->step());
    trainer->step().mean_over(world().size());
    trainer->prepare(sgd, exchange->shard());
  });
  if (status != Status::ok) return {};
  exchange->start();
  const Watched watched(world().watch(), "training of --verify");
  const auto gather = [&] { exchange->gather(); };
  Trained trained;
  if (!sgd) {
    trained.gradients = trainer->gradients(*exchange, gather);
    trainer->restart(batch);
  }
  trained.weights = trainer->train(static_cast<int>(c.integer("verify")), *exchange, gather);
  return trained;
}

// Run 0 trains as the ranks do. Later runs rotate the rows of the batch and perturb every weight by
// one unit in the last place.
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
    const auto nothing = [] {};
    for (int run = 0; run < runs; ++run) {
      const auto begin = [&] {
        trainer.restart(rotated(batch, whole.model.context, run % whole.batch));
        if (run > 0) trainer.perturb_weights(run);
      };
      Trained& of_run = trained.emplace_back();
      begin();
      if (!sgd) {
        of_run.gradients = trainer.gradients(alone, nothing);
        begin();
      }
      of_run.weights = trainer.train(static_cast<int>(c.integer("verify")), alone, nothing);
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
  world().wait_idle();  // rank 0 may have much to compare
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
  } catch (const std::bad_alloc&) {
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
