#include "experiments/training/fitted_links.h"

#include <fmt/format.h>

#include <cmath>

#include "core/error.h"
#include "record/hdf5.h"

namespace paceline {

std::vector<FittedLink> read_fitted_links(const std::string& path) {
  const hdf5::File file = hdf5::File::open(path);
  const auto texts = [&](const char* name) {
    return file.dataset(std::string("fit/") + name).read<std::string>();
  };
  const auto backends = texts("backend");
  const auto ops = texts("op");
  const auto dtypes = texts("dtype");
  const auto redops = texts("redop");
  const auto cadences = texts("cadence");
  const auto caches = texts("cache");
  const auto in_place = texts("in_place");
  const auto registrations = texts("registration");
  const auto ranks = file.dataset("fit/ranks").read<std::int64_t>();
  const auto latency = file.dataset("fit/latency_s").read<double>();
  const auto bandwidth = file.dataset("fit/bandwidth_bytes_per_s").read<double>();
  for (const std::size_t rows :
       {backends.size(), dtypes.size(), redops.size(), cadences.size(), caches.size(),
        in_place.size(), registrations.size(), ranks.size(), latency.size(), bandwidth.size()}) {
    if (rows != ops.size()) throw Hdf5Error("the columns of /fit differ in length");
  }
  std::vector<FittedLink> links;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (std::isnan(latency[i]) || std::isnan(bandwidth[i])) continue;
    links.push_back({.backend = backends[i],
                     .op = ops[i],
                     .dtype = dtypes[i],
                     .redop = redops[i],
                     .cadence = cadences[i],
                     .cache = caches[i],
                     .in_place = in_place[i],
                     .registration = registrations[i],
                     .ranks = ranks[i],
                     .link = {.latency = latency[i], .bandwidth = bandwidth[i]},
                     .file = path});
  }
  return links;
}

void require_finite_bandwidth(const FittedLink& fitted, std::string_view option) {
  if (!std::isinf(fitted.link.bandwidth)) return;
  throw UsageError(
      fmt::format("{}: {}: the times of {} on {} ranks do not grow with the bytes; measure more or "
                  "larger sizes with collectives --fit",
                  option, fitted.file, fitted.op, fitted.ranks));
}

}  // namespace paceline
