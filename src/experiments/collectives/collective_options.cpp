// The command line of `collectives`.

#include <algorithm>
#include <map>

#include "core/error.h"
#include "core/units.h"
#include "experiments/collectives/collective.h"
#include "harness/run_options.h"

namespace paceline {

namespace {

// Every preset pins every factor.
const std::map<std::string, std::vector<std::string>>& collective_presets() {
  static const auto* const presets = new std::map<std::string, std::vector<std::string>>{
      {"single-node",
       {"--backend", "mpi,nccl", "--op",           "all_reduce", "--bytes",    "1MB,10MB,100MB,1GB",
        "--dtype",   "float32",  "--redop",        "sum",        "--in-place", "no",
        "--ranks",   "2,4,6",    "--registration", "none",       "--cadence",  "barrier",
        "--cache",   "warm",     "--warmup",       "5",          "--steps",    "10"}}};
  return *presets;
}

void add_collective_options(OptionParser& p, CollectiveOptions& o) {
  std::vector<std::string> ops;
  for (const Collective& c : collectives()) ops.emplace_back(c.name);
  p.choices("--backend", o.backends, {"mpi", "nccl"},
            "mpi (host memory), nccl (GPU memory), a,b [those the machine has]");
  p.choices("--op", o.ops, ops,
            "all_reduce reduce_scatter all_gather broadcast reduce all_to_all send_recv, a,b "
            "[all_reduce]");
  p.custom("--bytes", "of the whole buffer, as nccl-tests counts, a,b [1MB,10MB,100MB,1GB]",
           [&o](const std::vector<std::string>& values) {
             o.bytes.clear();
             for (const std::string& v : values) o.bytes.push_back(parse_bytes(v));
           });
  p.choices("--dtype", o.dtypes, {"float32", "float64", "float16", "bfloat16", "int32"},
            "float32 float64 float16 bfloat16 int32, a,b [float32]");
  p.choices("--redop", o.redops, {"sum", "prod", "min", "max", "avg"},
            "sum prod min max avg, a,b [sum]");
  p.choices("--in-place", o.in_place, {"no", "yes"}, "no yes, a,b [no]");
  p.integers("--ranks", o.ranks, 1, 1 << 20,
             "number of ranks: the first N of the launch, a,b [all]");
  p.choices("--registration", o.registrations, {"none", "symmetric"},
            "none, or symmetric: buffers in windows that all ranks have registered with NCCL, a,b "
            "[none]");
  p.choices("--cadence", o.cadences, {"barrier", "back-to-back", "graph"},
            "barrier (one call between barriers), back-to-back (20 calls), graph (20 calls in a "
            "CUDA graph), a,b [barrier]");
  p.choices("--cache", o.caches, {"cold", "warm"},
            "cold: the last-level cache is flushed before each repetition, in which every call has "
            "buffers of its own; warm, a,b [warm]");
  p.flag("--fit", o.fit, "time = latency + bytes / bandwidth per sweep over --bytes");
}

}  // namespace

bool parse_collectives(Options& o, const std::vector<std::string>& arguments, std::string& help) {
  OptionParser p("collectives",
                 "Times collectives over ranks, sizes, dtypes and reductions, and checks every "
                 "result.");
  CollectiveOptions& c = o.collectives;
  add_run_options(p, o.run);
  add_collective_options(p, c);
  p.config_file();
  p.presets(collective_presets(), {});
  help = p.help();
  if (!p.parse(arguments, o.given)) return false;
  check_run_options(o.run);
  for (const std::string& place : c.in_place) {
    const bool possible = std::any_of(c.ops.begin(), c.ops.end(), [&](const std::string& op) {
      const Collective& x = collective_named(op);
      return place == "yes" ? x.in_place : x.out_of_place;
    });
    if (p.by_name("--in-place") && !possible) {
      throw UsageError("--in-place: " + c.ops.front() + " has no '" + place + "'; leave it out");
    }
  }
  c.backends_given = p.by_name("--backend");
  c.ranks_given = p.by_name("--ranks");
  const auto named = [&](const char* backend) {
    return std::find(c.backends.begin(), c.backends.end(), backend) != c.backends.end();
  };
  if (c.backends_given && o.run.device == "cpu" && named("nccl")) {
    throw UsageError("--backend: nccl moves GPU memory; leave out --device cpu");
  }
  if (c.backends_given && o.run.device == "cuda" && named("mpi")) {
    throw UsageError("--backend: mpi moves host memory; leave out --device cuda");
  }
  const bool reduces = std::any_of(c.ops.begin(), c.ops.end(), [](const std::string& op) {
    return collective_named(op).reduces;
  });
  if (p.by_name("--redop") && !reduces) {
    throw UsageError("--redop: " + c.ops.front() + " takes no reduction; leave it out");
  }
  return true;
}

}  // namespace paceline
