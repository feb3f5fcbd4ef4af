#include "registry.h"

#include <array>

namespace paceline {

using Make = std::unique_ptr<Command>();
Make model_command, attention_command, ddp_command, zero_command, collectives_command, plan_command,
    precision_command, info_command, merge_command;
using MakeOfAll = std::unique_ptr<Command>(std::span<const Registration>);
MakeOfAll list_command, columns_command;

// clang-format off
std::span<const Registration> registry() {
  static constexpr auto commands = std::to_array<Registration>({
    {"model", "end-to-end steps of a Transformer: forward, backward, AdamW", model_command},
    {"attention", "naive, fused and flash attention; every result is checked", attention_command},
    {"ddp", "the same steps, data-parallel: gradients averaged over ranks", ddp_command},
    {"zero", "the same steps with the optimizer's state sharded over ranks", zero_command},
    {"collectives", "all_reduce and others over ranks, sizes and dtypes; every result is checked", collectives_command},
    {"plan", "memory, communication and time of a model and a layout, from closed forms", plan_command},
    {"precision", "what mixed precision does: sums, dtypes of a running model, norms", precision_command},
    {"info", "ranks, devices and library versions; --ceilings measures their peak rates", info_command},
    {"list", "experiments and their presets, with the options of each", [] { return list_command(registry()); }},
    {"merge", "rebuilds a result file from its finished cases after a crash", merge_command},
    {"columns", "the meaning of every dataset and attribute of a result file, tab-separated", [] { return columns_command(registry()); }},
  });
  return commands;
}
// clang-format on

}  // namespace paceline
