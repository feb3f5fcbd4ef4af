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

struct Measured {
  const char* name;
  const char* key;  // in JSON
  Ceiling ceiling;
};

// Collective.
std::vector<Measured> measure_ceilings(World& world, Device& device) {
  Ceilings ceilings(world, device);
  return {{"GEMM fp32", "gemm_fp32_flops_per_s", ceilings.gemm(precision_named("fp32"))},
          {"GEMM bf16", "gemm_bf16_flops_per_s", ceilings.gemm(precision_named("bf16"))},
          {"GEMM fp16", "gemm_fp16_flops_per_s", ceilings.gemm(precision_named("fp16"))},
          {"copy", "copy_bytes_per_s", ceilings.copy()}};
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

// nvlinks: of each rank's GPU, bytes/s in one direction; NaN: unknown.
Json json_of(const RunInfo& run, Json hosts, const std::vector<std::vector<double>>& nvlinks,
             const std::vector<Measured>& ceilings) {
  Json ranks = Json::array();
  for (const RankInfo& r : run.ranks) {
    const auto index = static_cast<std::size_t>(r.rank);
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
      const std::vector<double>& rates = nvlinks.at(index);
      rank["nvlinks"] = {{"count", rates.size()},
                         {"bytes_per_s", rates.empty() ? 0 : std::ranges::min(rates)}};
    }
    for (const auto& [name, key, ceiling] : ceilings) {
      const Summary& rates = ceiling.by_rank.at(index);
      rank[key] = {{"median", rates.median}, {"ci_low", rates.ci_low}, {"ci_high", rates.ci_high}};
    }
    ranks.push_back(std::move(rank));
  }
  Json environment = Json::object();
  for (const auto& [name, value] : run.environment) environment[name] = value;
  return {{"software_version", software_version()},
          {"environment", std::move(environment)},
          {"ranks", std::move(ranks)},
          {"hosts", std::move(hosts)}};
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

// info: of json_of().
void print_text(const Json& info, const std::vector<Measured>& ceilings) {
  write_out("{}\n\n", software_version());
  for (const auto& [name, value] : info["environment"].items()) {
    write_out("{:<24} {}\n", name, value.get<std::string>());
  }
  write_out("\n{:>4}  {:<20} {:>5}  {:<6} {:>7} {:>9}  {}\n", "rank", "host", "local", "device",
            "threads", "memory", "model");
  for (const Json& r : info["ranks"]) {
    write_out("{:>4}  {:<20} {:>5}  {:<6} {:>7} {:>9}  {}\n", r["rank"].get<int>(),
              r["host"].get<std::string>(), r["local_rank"].get<int>(),
              r["device"].get<std::string>(), r["threads"].get<int>(),
              bytes_text(r["memory_bytes"].get<double>()), r["model"].get<std::string>());
  }
  for (const Json& r : info["ranks"]) {
    if (!r.contains("nvlinks") || r["nvlinks"]["count"] == 0) continue;
    write_out("{:>4}  {} NVLinks of {}/s each way\n", r["rank"].get<int>(),
              r["nvlinks"]["count"].get<int>(),
              bytes_text(r["nvlinks"]["bytes_per_s"].get<double>()));
  }
  for (const Json& host : info["hosts"]) print_links(host);
  if (ceilings.empty()) return;
  write_out("\nceilings, all ranks at once: the median and its 95% interval\n");
  for (const Json& r : info["ranks"]) {
    for (const Measured& measured : ceilings) {
      const auto text = [&](const char* figure) {
        const auto rate = r[measured.key][figure].get<double>();
        return measured.ceiling.unit == "FLOP/s" ? count_text(rate) + "FLOP" : bytes_text(rate);
      };
      write_out("{:>4}  {:<10} {}/s [{}/s, {}/s]\n", r["rank"].get<int>(), measured.name,
                text("median"), text("ci_low"), text("ci_high"));
    }
  }
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
    std::vector<Measured> ceilings;
    if (ceilings_) ceilings = measure_ceilings(world, device);
    Json hosts = gather_links(world, run);
    const auto nvlinks = gather_values(world, device.nvlinks());
    if (world.rank() != 0) return ExitCode::done;
    const Json info = json_of(run, std::move(hosts), nvlinks, ceilings);
    if (run_.json) {
      // Names from the system may contain bytes that are not valid UTF-8.
      write_out("{}\n", info.dump(-1, ' ', false, Json::error_handler_t::replace));
    } else {
      print_text(info, ceilings);
    }
    return ExitCode::done;
  }

 private:
  bool ceilings_ = false;
};

}  // namespace

std::unique_ptr<Command> info_command() { return std::make_unique<InfoCommand>(); }

}  // namespace paceline
