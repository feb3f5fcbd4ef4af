// `paceline info`: ranks, devices, links and library versions; --ceilings measures peak rates.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/precision.h"
#include "core/screen.h"
#include "core/units.h"
#include "experiments/info/host_links.h"
#include "harness/ceilings.h"
#include "harness/command.h"
#include "harness/gather.h"

namespace paceline {

namespace {

using Json = nlohmann::ordered_json;

struct MeasuredCeiling {
  std::string name;  // "GEMM fp32"
  std::string key;   // in JSON
  Ceiling ceiling;
};

// Collective.
std::vector<MeasuredCeiling> measure_ceilings(World& world, Device& device) {
  Ceilings ceilings(world, device);
  std::vector<MeasuredCeiling> all;
  for (const char* name : {"fp32", "bf16", "fp16"}) {
    all.push_back({fmt::format("GEMM {}", name), fmt::format("gemm_{}_flops_per_s", name),
                   ceilings.gemm(precision_named(name))});
  }
  all.push_back({"copy", "copy_bytes_per_s", ceilings.copy()});
  return all;
}

// NVLinks of one rank's GPU.
struct NvLinks {
  int count = 0;
  double rate = 0;  // bytes/s of the slowest link in one direction; NaN: unknown
};

// Collective. At rank 0, one element per rank.
std::vector<NvLinks> gather_nvlinks(World& world, const Device& device) {
  std::vector<NvLinks> all;
  for (const std::vector<double>& rates : gather_values(world, device.nvlinks())) {
    const auto slowest = std::min_element(rates.begin(), rates.end());
    all.push_back({static_cast<int>(rates.size()), slowest == rates.end() ? 0 : *slowest});
  }
  return all;
}

// Collective. At rank 0, the links of each host as read by the host's first rank.
Json gather_links(World& world, const RunInfo& run) {
  const bool reads = world.local_rank() == 0;
  const std::vector<std::string> texts = world.gather(reads ? host_links().dump() : std::string());
  Json hosts = Json::array();
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    if (texts[rank].empty()) continue;
    Json host = {{"host", run.ranks[rank].host}};
    host.update(Json::parse(texts[rank]));
    hosts.push_back(std::move(host));
  }
  return hosts;
}

Json json_of(const RunInfo& run, const Json& hosts, const std::vector<NvLinks>& nvlinks,
             const std::vector<MeasuredCeiling>& ceilings) {
  Json ranks = Json::array();
  for (const RankInfo& r : run.ranks) {
    Json rank = {{"rank", r.rank},
                 {"host", r.host},
                 {"local_rank", r.local_rank},
                 {"device", name_of(r.device.kind)},
                 {"model", r.device.name},
                 {"cpu", r.cpu},
                 {"threads", r.device.threads},
                 {"memory_bytes", r.device.memory_bytes}};
    if (r.device.kind == DeviceKind::cuda) {
      rank["gpu_uuid"] = r.device.uuid;
      rank["pci_bus_id"] = r.device.pci_bus_id;
      const NvLinks& links = nvlinks.at(static_cast<std::size_t>(r.rank));
      rank["nvlinks"] = {{"count", links.count}, {"bytes_per_s", links.rate}};
    }
    for (const auto& [name, key, ceiling] : ceilings) {
      const Summary& rates = ceiling.by_rank.at(static_cast<std::size_t>(r.rank));
      rank[key] = {{"median", rates.median}, {"ci_low", rates.ci_low}, {"ci_high", rates.ci_high}};
    }
    ranks.push_back(std::move(rank));
  }
  Json environment = Json::object();
  for (const auto& [name, value] : run.environment) environment[name] = value;
  return {{"software_version", software_version()},
          {"environment", std::move(environment)},
          {"ranks", std::move(ranks)},
          {"hosts", hosts}};
}

// "32.0 GT/s x16"
std::string link_text(const Json& link) {
  if (link.is_null()) return "-";
  std::string speed = link["per_lane"].get<std::string>();
  speed = speed.substr(0, speed.find(" PCIe"));
  return fmt::format("{} x{}", speed, link["lanes"].get<int>());
}

void print_links(const Json& host) {
  write_out("\nlinks of {} (NUMA nodes: {})\n", host["host"].get<std::string>(),
            host["numa_nodes"].get<int>());
  write_out("{:<10}  {:<12}  {:<12}  {:>4}  {:<14}  {:<14}  {}\n", "kind", "name", "PCI", "NUMA",
            "PCIe now", "PCIe at most", "speed");
  for (const Json& device : host["devices"]) {
    const Json speed = device.value("gbit_per_s", Json(nullptr));
    write_out("{:<10}  {:<12}  {:<12}  {:>4}  {:<14}  {:<14}  {}{}\n",
              device["kind"].get<std::string>(), device.value("name", "-"),
              device["pci_address"].get<std::string>(),
              device["numa_node"].is_null() ? "-" : device["numa_node"].dump(),
              link_text(device["pcie"]), link_text(device["pcie_most"]),
              speed.is_null() ? "-" : fmt::format("{} Gbit/s", speed.get<double>()),
              device.contains("state") ? ", " + device["state"].get<std::string>() : "");
  }
  if (host["devices"].empty()) write_out("no GPU and no network interface on PCI\n");
}

void print_ceilings(const std::vector<MeasuredCeiling>& ceilings, std::size_t ranks) {
  write_out("\nceilings, all ranks at once: the median and its 95% interval\n");
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (const auto& [name, key, ceiling] : ceilings) {
      const auto text = [&ceiling = ceiling](double rate) {
        return ceiling.unit == "FLOP/s" ? count_text(rate) + "FLOP" : bytes_text(rate);
      };
      const Summary& rates = ceiling.by_rank.at(rank);
      write_out("{:>4}  {:<10} {}/s [{}/s, {}/s]\n", rank, name, text(rates.median),
                text(rates.ci_low), text(rates.ci_high));
    }
  }
}

void print_nvlinks(const std::vector<NvLinks>& nvlinks) {
  for (std::size_t rank = 0; rank < nvlinks.size(); ++rank) {
    const NvLinks& links = nvlinks[rank];
    if (links.count == 0) continue;
    write_out("{:>4}  {} NVLinks of {}/s each way\n", rank, links.count, bytes_text(links.rate));
  }
}

void print_text(const RunInfo& run, const Json& hosts, const std::vector<NvLinks>& nvlinks,
                const std::vector<MeasuredCeiling>& ceilings) {
  write_out("{}\n\n", software_version());
  for (const auto& [name, value] : run.environment) write_out("{:<24} {}\n", name, value);
  write_out("\n{:>4}  {:<20} {:>5}  {:<6} {:>7} {:>9}  {}\n", "rank", "host", "local", "device",
            "threads", "memory", "model");
  for (const RankInfo& r : run.ranks) {
    write_out("{:>4}  {:<20} {:>5}  {:<6} {:>7} {:>9}  {}\n", r.rank, r.host, r.local_rank,
              name_of(r.device.kind), r.device.threads,
              bytes_text(static_cast<double>(r.device.memory_bytes)), r.device.name);
  }
  print_nvlinks(nvlinks);
  for (const Json& host : hosts) print_links(host);
  if (!ceilings.empty()) print_ceilings(ceilings, run.ranks.size());
}

class InfoCommand final : public Command {
 public:
  void declare(OptionParser& p) override {
    declare_launch_options(p, run_);
    p.flag("--ceilings", ceilings_, "measure peak rates: GEMM per precision, copy bandwidth");
    p.flag("--json", run_.json, "one JSON object instead of tables");
  }
  [[nodiscard]] bool needs_mpi() const override { return false; }
  [[nodiscard]] ExitCode run(Launch* launch) override {
    World& world = launch->world;
    Device& device = launch->device();
    RunInfo& run = launch->info;
    for (auto& [name, value] : run.environment) {
      if (name == "mpi") value = launch->mpi_library;
    }
    std::vector<MeasuredCeiling> ceilings;
    if (ceilings_) ceilings = measure_ceilings(world, device);
    const Json hosts = gather_links(world, run);
    const std::vector<NvLinks> nvlinks = gather_nvlinks(world, device);
    if (world.rank() != 0) return ExitCode::done;
    if (run_.json) {
      // Names from the system may contain bytes that are not valid UTF-8.
      write_out("{}\n", json_of(run, hosts, nvlinks, ceilings)
                            .dump(-1, ' ', false, Json::error_handler_t::replace));
    } else {
      print_text(run, hosts, nvlinks, ceilings);
    }
    return ExitCode::done;
  }

 private:
  bool ceilings_ = false;
};

}  // namespace

std::unique_ptr<Command> info_command() { return std::make_unique<InfoCommand>(); }

}  // namespace paceline
