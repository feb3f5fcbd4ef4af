#include "experiments/training/training_case.h"

namespace paceline {

namespace {

// Every preset sets every factor, so that a changed default does not change it. Common to all:
const std::string pinned =
    "--precision fp32 --attention naive --fp32-attention bf16x3 --flash-kernels newest "
    "--exec eager --mode train-step --optimizer serial --recompute none --vocab 10000 --lr 0.001 "
    "--beta1 0.9 "
    "--beta2 0.999 --eps 1e-8 --weight-decay 0.01 --memory-timeline no --seed 0 "
    "--deterministic no --warmup 5 --max-warmup 0 --steps 10 --min-time 0 --until-ci 0 "
    "--max-steps 0 --profile 0 ";

const std::string sizes =
    pinned +
    "--size small,medium,large,xl,2.7b --context 128 --batch-size 4 --timing phases "
    "--cold-start no ";

// The course's benchmark: xl, context 128, global batch 4.
const std::string exchange = pinned + "--size xl --context 128 --timing step --comm-dtype fp32 ";
const std::string course = exchange + "--global-batch 4 ";
const std::string zero = "--bucket-mb 25 --prefetch 1 --reshard yes ";
const std::string course_ddp =
    course + "--sync none,naive,flat,overlap,bucketed --bucket-mb 1,10,100,1000 ";

}  // namespace

const Presets& training_presets(TrainingKind kind) {
  static const std::map<TrainingKind, Presets> presets = {
      {TrainingKind::model,
       {{"sizes", sizes + "--context 128,256,512,1024"},
        {"warmup", sizes + "--cold-start yes --warmup 0,1,2,5"},
        {"profile", sizes + "--context 128,256,512,1024 --profile 10"},
        {"precision", sizes + "--precision fp32,bf16"},
        {"memory", sizes + "--size 2.7b --context 128,256,512 --precision fp32,bf16 "
                           "--mode inference,forward,train-step --memory-timeline yes"},
        {"checkpointing", sizes + "--size 2.7b --context 1024,2048 --precision bf16 "
                                  "--attention flash --timing step --recompute none,block,2,4,8"},
        {"compile", sizes + "--context 512 --exec eager,compiled --timing step "
                            "--mode forward,forward-backward,train-step"}}},
      {TrainingKind::ddp,
       {{"course", course_ddp},
        {"context", course_ddp + "--context 512,1024 --attention naive,flash "
                                 "--sync naive,flat,overlap,bucketed --bucket-mb 256"},
        {"long", course_ddp + "--context 32 --global-batch 32 --steps 50"}}},
      {TrainingKind::zero,
       {{"course", course + zero + "--shard none,broadcast,zero1"},
        {"fsdp", exchange + zero +
                     "--size xl,2.7b --context 512 --batch-size 4 --precision bf16 "
                     "--attention flash --shard none,zero1,zero2,fsdp --prefetch 0,1,2 "
                     "--reshard yes,no"}}}};
  return presets.at(kind);
}

const std::map<std::string, std::string>& training_preset_exclusions() {
  static const std::map<std::string, std::string> exclusions = {{"--global-batch", "--batch-size"},
                                                                {"--batch-size", "--global-batch"},
                                                                {"--d-model", "--size"}};
  return exclusions;
}

}  // namespace paceline
