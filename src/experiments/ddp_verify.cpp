// --verify: data-parallel training held against a single process that trains on the whole batch.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "core/fnv1a.h"
#include "experiments/attention_factors.h"
#include "experiments/ddp.h"
#include "parallel/no_sync.h"

namespace paceline {

namespace {

constexpr double sgd_learning_rate = 0.1;
constexpr double rtol = 1e-5;  // of each weight after SGD
constexpr double atol = 1e-6;
// Of each tensor after AdamW, which amplifies what rounding leaves of gradients near zero.
constexpr double most_distance = 1e-5;

struct NamedWeights {
  std::string name;
  std::vector<float> values;
};
using Weights = std::vector<NamedWeights>;

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

  void train(int steps, ParameterSync& sync) {
    for (int k = 0; k < steps; ++k) (void)step_.run(sync);
  }

  [[nodiscard]] Weights weights() {
    const ParameterStore& store = step_.model().store();
    Weights weights;
    for (const ParameterEntry& entry : store.entries()) {
      for (const ParameterView& view : entry.views) {
        const Tensor x = store.slice(store.parameters(), entry, view);
        weights.push_back({view.name, std::vector<float>(static_cast<std::size_t>(x.numel()))});
        device_.to_host(weights.back().values.data(), x);
      }
    }
    return weights;
  }

 private:
  Device& device_;
  TrainingStep step_;
};

std::uint64_t checksum(const Weights& weights) {
  Fnv1a bits;
  for (const NamedWeights& tensor : weights) {
    for (const float value : tensor.values) bits.add(std::bit_cast<std::uint32_t>(value));
  }
  return bits.sum();
}

// The largest |a - b| / (atol + rtol |b|).
double worst_weight(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double error = std::abs(static_cast<double>(a[i]) - b[i]);
    worst = std::max(worst, std::isnan(error) ? HUGE_VAL : error / (atol + rtol * std::abs(b[i])));
  }
  return worst;
}

// |a - b| / |b|
double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  const double ratio = std::sqrt(difference / norm);
  return std::isnan(ratio) ? HUGE_VAL : ratio;
}

}  // namespace

// Every rank trains its rows, then rank 0 all of them; one after the other, so that the memory
// holds one model at a time. Throws OutOfMemory on every rank when one lacks it.
void DdpExperiment::verify(CaseRecord& record, Progress& progress) {
  const Case& c = record.factors;
  const auto steps = static_cast<int>(c.integer("verify"));
  if (steps == 0) return;
  const StepShape mine = shape_of(c);
  StepShape whole = mine;
  whole.batch *= world().size();
  const bool root = world().rank() == 0;
  Column tensor{"tensor", "", std::vector<std::string>{}};
  Column after_sgd{"sgd_error", "", std::vector<double>{}};
  Column after_adamw{"adamw_distance", "", std::vector<double>{}};
  bool ranks_differ = false;

  for (const bool sgd : {true, false}) {
    progress.update(sgd ? "verify: SGD" : "verify: AdamW", sgd ? 0 : 0.5);
    device().trim();
    Weights parallel;
    {
      std::unique_ptr<Trainer> trainer;
      std::unique_ptr<GradientSync> exchange;
      record.status = with_memory([&] {
        const Batch batch = batch_of(c, world().rank() * mine.batch, mine.batch);
        trainer = std::make_unique<Trainer>(device(), mine, ops_config_of(c), options(), batch,
                                            store_layout(c));
        exchange = make_exchange(c, trainer->step());
        trainer->step().mean_over(world().size());
        trainer->prepare(sgd, exchange->shard());
      });
      if (record.status == Status::ok) {
        exchange->start();
        const auto watched = watched_calls(communicator_, world().watch(), "training of --verify");
        trainer->train(steps, *exchange);
        exchange->gather();
        parallel = trainer->weights();
      }
    }
    device().trim();
    Weights single;
    if (record.status == Status::ok) {
      record.status = with_memory([&] {
        if (!root) return;
        NoSync alone;
        Trainer trainer(device(), whole, ops_config_of(c), options(), batch_of(c, 0, whole.batch),
                        {});
        trainer.prepare(sgd, Shard::whole(trainer.step().model().store()));
        trainer.train(steps, alone);
        single = trainer.weights();
      });
    }
    if (record.status != Status::ok) {
      record.reason = "--verify: a model that trains on the whole batch does not fit in memory";
      return;
    }
    const std::string sum = std::to_string(checksum(parallel));
    if (world().max(world().broadcast(sum, 0) == sum ? 0 : 1) > 0) ranks_differ = true;
    for (std::size_t i = 0; i < single.size(); ++i) {
      const std::vector<float>& a = parallel[i].values;
      const std::vector<float>& b = single[i].values;
      if (sgd) std::get<2>(tensor.data).push_back(single[i].name);
      std::get<1>((sgd ? after_sgd : after_adamw).data)
          .push_back(sgd ? worst_weight(a, b) : distance(a, b));
    }
  }

  if (root) {
    const auto largest = [](const Column& column) {
      const auto& values = std::get<std::vector<double>>(column.data);
      return *std::max_element(values.begin(), values.end());
    };
    const double error = largest(after_sgd);
    const double apart = largest(after_adamw);
    record.summary.push_back(number("verify_sgd_error", "", error));
    record.summary.push_back(number("verify_adamw_distance", "", apart));
    record.tables.push_back({"check", {tensor, after_sgd, after_adamw}});
    if (ranks_differ || error > 1 || apart > most_distance) {
      record.status = Status::mismatch;
      record.reason = fmt::format(
          "--verify: {}the largest error after SGD is {:.3g} of what rtol {:g} and atol {:g} "
          "allow, the largest distance after AdamW {:.3g} of {:g}",
          ranks_differ ? "ranks differ in bits; " : "", error, rtol, atol, apart, most_distance);
    }
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
