#include "experiments/info/info.h"

#include <fmt/format.h>

#include "core/precision.h"
#include "core/units.h"
#include "harness/gather.h"

namespace paceline {

void print_info(World& world, Device& device, const RunInfo& run, bool ceilings) {
  std::vector<double> measured;
  if (ceilings) {
    world.barrier();  // all ranks measure at the same time, as they will run
    for (const char* name : {"fp32", "bf16", "fp16"}) {
      measured.push_back(device.gemm_ceiling(precision_named(name)));
    }
    measured.push_back(device.copy_ceiling());
  }
  const auto all = gather_doubles(world, measured);
  if (world.rank() != 0) return;

  fmt::print("{}\n\n", software_version());
  for (const auto& [name, value] : run.environment) fmt::print("{:<24} {}\n", name, value);
  fmt::print("\n{:>4}  {:<20} {:>5}  {:<6} {:>7} {:>9}  {}\n", "rank", "host", "local", "device",
             "threads", "memory", "model");
  for (const RankInfo& r : run.ranks) {
    fmt::print("{:>4}  {:<20} {:>5}  {:<6} {:>7} {:>9}  {}\n", r.rank, r.host, r.local_rank,
               r.device.kind, r.device.threads,
               bytes_text(static_cast<double>(r.device.memory_bytes)), r.device.name);
  }
  if (!ceilings) return;
  fmt::print("\n{:>4}  {:>14} {:>14} {:>14} {:>14}   (all ranks at once)\n", "rank", "GEMM fp32",
             "GEMM bf16", "GEMM fp16", "copy r+w");
  for (std::size_t r = 0; r < all.size(); ++r) {
    fmt::print("{:>4}  {:>8}FLOP/s {:>8}FLOP/s {:>8}FLOP/s {:>12}/s\n", r, count_text(all[r][0]),
               count_text(all[r][1]), count_text(all[r][2]), bytes_text(all[r][3]));
  }
}

}  // namespace paceline
