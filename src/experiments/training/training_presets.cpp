#include <algorithm>

#include "experiments/training/training_case.h"

namespace paceline {

namespace {

// Every preset pins every factor: it starts from these, so that no default changes what it
// measures.
const Preset& pinned() {
  static const auto* const preset = new Preset{{"--size", "small,medium,large,xl,2.7b"},
                                               {"--context", "128"},
                                               {"--batch-size", "4"},
                                               {"--precision", "fp32"},
                                               {"--attention", "naive"},
                                               {"--fp32-attention", "bf16x3"},
                                               {"--flash-kernels", "newest"},
                                               {"--exec", "eager"},
                                               {"--mode", "train-step"},
                                               {"--recompute", "none"},
                                               {"--vocab", "10000"},
                                               {"--timing", "phases"},
                                               {"--lr", "0.001"},
                                               {"--beta1", "0.9"},
                                               {"--beta2", "0.999"},
                                               {"--eps", "1e-8"},
                                               {"--weight-decay", "0.01"},
                                               {"--memory-timeline", "no"},
                                               {"--seed", "0"},
                                               {"--deterministic", "no"},
                                               {"--warmup", "5"},
                                               {"--steps", "10"},
                                               {"--until-ci", "0"},
                                               {"--max-steps", "0"}};
  return *preset;
}

Preset with(Preset preset, const std::map<std::string, std::string>& changes) {
  for (const auto& [name, value] : changes) {
    const auto it = std::find_if(preset.begin(), preset.end(), [&, &of = name](const auto& option) {
      return option.first == of;
    });
    if (it == preset.end()) {
      preset.emplace_back(name, value);
    } else {
      it->second = value;
    }
  }
  return preset;
}

// The course's benchmark: xl, context 128, global batch 4.
Preset course() {
  Preset preset =
      with(pinned(), {{"--size", "xl"}, {"--timing", "step"}, {"--comm-dtype", "fp32"}});
  std::replace(preset.begin(), preset.end(), Preset::value_type{"--batch-size", "4"},
               Preset::value_type{"--global-batch", "4"});
  return preset;
}

Presets model_presets() {
  return {{"sizes", with(pinned(), {{"--context", "128,256,512,1024"}})},
          {"warmup", pinned()},
          {"precision", with(pinned(), {{"--precision", "fp32,bf16"}})},
          {"memory", with(pinned(), {{"--size", "2.7b"},
                                     {"--context", "128,256,512"},
                                     {"--mode", "inference,forward,train-step"},
                                     {"--precision", "fp32,bf16"},
                                     {"--memory-timeline", "yes"}})}};
}

Presets ddp_presets() {
  const Preset base = with(
      course(), {{"--sync", "none,naive,flat,overlap,bucketed"}, {"--bucket-mb", "1,10,100,1000"}});
  return {{"course", base},
          {"context", with(base, {{"--context", "512,1024"},
                                  {"--attention", "naive,flash"},
                                  {"--sync", "naive,flat,overlap,bucketed"},
                                  {"--bucket-mb", "256"}})},
          {"long", with(base, {{"--context", "32"}, {"--global-batch", "32"}, {"--steps", "50"}})}};
}

Presets zero_presets() {
  return {{"course", with(course(), {{"--shard", "none,broadcast,zero1"}, {"--bucket-mb", "25"}})}};
}

}  // namespace

const Presets& training_presets(TrainingKind kind) {
  static const auto* const presets =
      new std::map<TrainingKind, Presets>{{TrainingKind::model, model_presets()},
                                          {TrainingKind::ddp, ddp_presets()},
                                          {TrainingKind::zero, zero_presets()}};
  return presets->at(kind);
}

const std::map<std::string, std::string>& training_preset_exclusions() {
  static const auto* const exclusions =
      new std::map<std::string, std::string>{{"--global-batch", "--batch-size"},
                                             {"--batch-size", "--global-batch"},
                                             {"--d-model", "--size"}};
  return *exclusions;
}

}  // namespace paceline
