// The commands of paceline in the order of `paceline --help`. To add an experiment, add a folder
// next to this file and a line here, which declares the function that constructs its command.

#include <array>

#include "harness/command.h"

namespace paceline {

using Make = std::unique_ptr<Command>();

// clang-format off
std::span<const Registration> registry() {
  static constexpr auto commands = std::to_array<Registration>({
    {"model", "end-to-end steps of a Transformer: forward, backward, AdamW", [] { Make model_command; return model_command(); }},
    {"attention", "naive, fused and flash attention; every result is checked", [] { Make attention_command; return attention_command(); }},
    {"ddp", "the same steps, data-parallel: gradients averaged over ranks", [] { Make ddp_command; return ddp_command(); }},
    {"zero", "the same steps with the optimizer's state sharded over ranks", [] { Make zero_command; return zero_command(); }},
    {"collectives", "all_reduce and others over ranks, sizes and dtypes; every result is checked", [] { Make collectives_command; return collectives_command(); }},
    {"plan", "memory, communication and time of a model and a layout, from closed forms", [] { Make plan_command; return plan_command(); }},
    {"precision", "what mixed precision does: sums, bits, dtypes of a running model, norms", [] { Make precision_command; return precision_command(); }},
    {"info", "ranks, devices and library versions; --ceilings measures their peak rates", [] { Make info_command; return info_command(); }},
    {"list", "experiments and their presets, with what each preset pins", [] { Make list_command; return list_command(); }},
    {"merge", "rebuilds a result file from its finished cases after a crash", [] { Make merge_command; return merge_command(); }},
    {"compare", "whether B is faster or slower than A, case by case; exits 1 on a regression", [] { Make compare_command; return compare_command(); }},
    {"columns", "the meaning of every dataset and attribute of a result file, tab-separated", [] { Make columns_command; return columns_command(); }},
  });
  return commands;
}
// clang-format on

}  // namespace paceline
