// `paceline info`: ranks, devices and library versions; --ceilings measures what they can do.

#include <fmt/format.h>

#include <memory>

#include "core/precision.h"
#include "core/units.h"
#include "devices.h"
#include "harness/command.h"
#include "harness/gather.h"

namespace paceline {

namespace {

// Collective.
void print_info(World& world, Device& device, const RunInfo& run, bool ceilings) {
  std::vector<double> measured;
  if (ceilings) {
    world.barrier();  // all ranks measure at the same time, as they will run
    for (const char* name : {"fp32", "bf16", "fp16"}) {
      measured.push_back(device.gemm_ceiling(precision_named(name)));
    }
    measured.push_back(device.copy_ceiling());
  }
  const auto all = gather_values(world, measured);
  if (world.rank() != 0) return;

  fmt::print("{}\n\n", software_version());
  for (const auto& [name, value] : run.environment) fmt::print("{:<24} {}\n", name, value);
  fmt::print("\n{:>4}  {:<20} {:>5}  {:<6} {:>7} {:>9}  {}\n", "rank", "host", "local", "device",
             "threads", "memory", "model");
  for (const RankInfo& r : run.ranks) {
    fmt::print("{:>4}  {:<20} {:>5}  {:<6} {:>7} {:>9}  {}\n", r.rank, r.host, r.local_rank,
               name_of(r.device.kind), r.device.threads,
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

class InfoCommand final : public Command {
 public:
  void declare(OptionParser& p) override {
    declare_launch_options(p, run_);
    p.flag("--ceilings", ceilings_, "measure them: GEMM per precision, copy bandwidth");
  }
  [[nodiscard]] ExitCode run(World* world, const std::string& line) override {
    const std::unique_ptr<Device> device = make_device(run_, *world).device;
    print_info(*world, *device, describe_launch(*world, device->info(), line, "info"), ceilings_);
    return ExitCode::done;
  }

 private:
  bool ceilings_ = false;
};

}  // namespace

std::unique_ptr<Command> info_command() { return std::make_unique<InfoCommand>(); }

}  // namespace paceline
