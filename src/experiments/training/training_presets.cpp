#include "experiments/training/training_case.h"

namespace paceline {

namespace {

const std::string sizes = "--size small,medium,large,xl,2.7b ";

// The course's benchmark: xl, context 128, global batch 4.
const std::string course = "--size xl --global-batch 4 ";
const std::string course_ddp =
    course + "--sync none,naive,flat,overlap,bucketed --bucket-mb 1,10,100,1000 ";

}  // namespace

const Presets& training_presets(TrainingKind kind) {
  static const std::map<TrainingKind, Presets> presets = {
      {TrainingKind::model,
       {{"sizes", sizes + "--context 128,256,512,1024"},
        {"warmup", sizes},
        {"profile", sizes + "--context 128,256,512,1024 --profile 10"},
        {"precision", sizes + "--precision fp32,bf16"},
        {"memory",
         "--size 2.7b --context 128,256,512 --precision fp32,bf16 "
         "--mode inference,forward,train-step --memory-timeline yes"},
        {"checkpointing",
         "--size 2.7b --context 1024,2048 --precision bf16 --attention flash --timing step "
         "--recompute none,block,2,4,8"},
        {"compile", sizes + "--context 512 --exec eager,compiled --timing step "
                            "--mode forward,forward-backward,train-step"}}},
      {TrainingKind::ddp,
       {{"course", course_ddp},
        {"context", course + "--context 512,1024 --attention naive,flash "
                             "--sync naive,flat,overlap,bucketed --bucket-mb 256"},
        {"long", course_ddp + "--context 32 --global-batch 32 --steps 50"}}},
      {TrainingKind::zero,
       {{"course", course + "--shard none,broadcast,zero1"},
        {"fsdp",
         "--size xl,2.7b --context 512 --precision bf16 --attention flash "
         "--shard none,zero1,zero2,fsdp --prefetch 0,1,2 --reshard yes,no"}}}};
  return presets.at(kind);
}

const std::map<std::string, std::string>& training_preset_exclusions() {
  static const std::map<std::string, std::string> exclusions = {{"--batch-size", "--global-batch"},
                                                                {"--d-model", "--size"}};
  return exclusions;
}

}  // namespace paceline
