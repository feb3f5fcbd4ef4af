// --predict: the course's bucket equation, from a file of fitted collectives, beside the sweep.
//
// With n buckets of s bytes of gradients in all, latency o per call and bandwidth w, and as much
// time to compute a bucket's gradients as to send them, what is exposed is
//   overhead(n) = n o + s / (n w), least at buckets of sqrt(s o w) bytes.

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <map>

#include "core/error.h"
#include "experiments/training/ddp.h"
#include "record/hdf5.h"

namespace paceline {

namespace {

struct Link {
  double latency = std::numeric_limits<double>::quiet_NaN();    // s
  double bandwidth = std::numeric_limits<double>::quiet_NaN();  // bytes/s, of the whole message
};

// The all_reduce of this backend, dtype and number of ranks; back-to-back where there are several.
Link read_fit(const std::string& path, std::string_view backend, std::string_view dtype,
              std::int64_t ranks) {
  Link link;
  bool back_to_back = false;
  try {
    const hdf5::File file = hdf5::File::open(path);
    const auto texts = [&](const char* name) {
      return file.dataset(std::string("fit/") + name).read_strings();
    };
    const auto reals = [&](const char* name) {
      return file.dataset(std::string("fit/") + name).read<double>();
    };
    const auto backends = texts("backend");
    const auto ops = texts("op");
    const auto dtypes = texts("dtype");
    const auto cadences = texts("cadence");
    const auto counts = file.dataset("fit/ranks").read<std::int64_t>();
    const auto latency = reals("latency_s");
    const auto bandwidth = reals("bandwidth_bytes_per_s");
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const bool fits = ops[i] == "all_reduce" && backends[i] == backend && dtypes[i] == dtype &&
                        counts[i] == ranks;
      if (!fits || back_to_back) continue;
      back_to_back = cadences[i] == "back-to-back";
      link = {.latency = latency[i], .bandwidth = bandwidth[i]};
    }
  } catch (const Hdf5Error& error) {
    throw UsageError(fmt::format("--predict: {} holds no fit ({}); make it with collectives --fit",
                                 path, error.what()));
  }
  if (std::isnan(link.latency)) {
    throw UsageError(
        fmt::format("--predict: {} has no fit of all_reduce, {}, {}, {} ranks; make it with "
                    "collectives --fit",
                    path, backend, dtype, ranks));
  }
  return link;
}

}  // namespace

void DdpExperiment::check_prediction(const Case& c) const {
  if (options().ddp.predict.empty() || c.text("sync") != "bucketed") return;
  const bool half = c.text("comm_dtype") == "bf16";
  (void)read_fit(options().ddp.predict, communicator_.backend(), half ? "bfloat16" : "float32",
                 world().size());
}

std::vector<Table> DdpExperiment::closing_tables(
    const std::vector<std::vector<Column>>& rows) const {
  if (options().ddp.predict.empty()) return {};
  constexpr double mega = 1e6;
  struct Point {
    std::string name;
    std::string sweep;  // what the buckets of one sweep have in common
    double bucket_mb, calls, predicted, exposed, step, best;
  };
  std::vector<Point> points;
  std::map<std::string, const Point*> fastest;  // by sweep
  for (const auto& row : rows) {
    const auto text = [&](std::string_view name) { return value_in<std::string>(row, name); };
    const auto real = [&](std::string_view name) { return value_in<double>(row, name); };
    if (text("status") != "ok" || text("sync") != "bucketed") continue;
    const bool half = text("comm_dtype") == "bf16";
    const Link link = read_fit(options().ddp.predict, communicator_.backend(),
                               half ? "bfloat16" : "float32", world().size());
    const double n = real("communication_calls");
    const double s = real("communication_bytes");
    std::string name = text("case");
    std::string sweep = name.substr(0, name.find("-bucketed-")) + text("comm_dtype");
    points.push_back({.name = std::move(name),
                      .sweep = std::move(sweep),
                      .bucket_mb = real("bucket_mb"),
                      .calls = n,
                      .predicted = n * link.latency + s / (n * link.bandwidth),
                      .exposed = real("communication_exposed_median_s"),
                      .step = real("step_median_s"),
                      .best = std::sqrt(s * link.latency * link.bandwidth) / mega});
  }
  if (points.empty()) return {};
  for (const Point& p : points) {
    const Point*& best = fastest[p.sweep];
    if (best == nullptr || p.step < best->step) best = &p;
  }
  std::vector<std::string> names;
  for (const Point& p : points) names.push_back(p.name);
  Table table{"predict", {{"case", "", names}}};
  const auto column = [&](const char* name, const char* unit, const auto& value) {
    std::vector<double> values;
    for (const Point& p : points) values.push_back(value(p));
    table.columns.push_back({name, unit, values});
  };
  column("bucket_mb", "", [](const Point& p) { return p.bucket_mb; });
  column("buckets", "", [](const Point& p) { return p.calls; });
  column("predicted_overhead_s", "s", [](const Point& p) { return p.predicted; });
  column("measured_exposed_s", "s", [](const Point& p) { return p.exposed; });
  column("measured_step_s", "s", [](const Point& p) { return p.step; });
  column("predicted_best_bucket_mb", "", [](const Point& p) { return p.best; });
  column("measured_best_bucket_mb", "",
         [&](const Point& p) { return fastest[p.sweep]->bucket_mb; });
  return {table};
}

}  // namespace paceline
