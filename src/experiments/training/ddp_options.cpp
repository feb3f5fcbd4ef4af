// The command line of `ddp`.

#include <algorithm>
#include <map>

#include "core/error.h"
#include "harness/run_options.h"

namespace paceline {

namespace {

using Values = std::vector<std::string>;

const std::map<std::string, Values>& ddp_presets() {
  static const auto* const presets = [] {
    Values base = course_preset();
    for (const char* word : {"--sync", "none,naive,flat,overlap,bucketed", "--bucket-mb",
                             "1,10,100,1000", "--comm-dtype", "fp32"}) {
      base.emplace_back(word);
    }
    const auto with = [&base](const std::map<std::string, std::string>& changes) {
      Values v = base;
      for (const auto& [name, value] : changes) *(std::find(v.begin(), v.end(), name) + 1) = value;
      return v;
    };
    return new std::map<std::string, Values>{
        {"course", base},
        {"context", with({{"--context", "512,1024"},
                          {"--attention", "naive,flash"},
                          {"--sync", "naive,flat,overlap,bucketed"},
                          {"--bucket-mb", "256"}})},
        {"long", with({{"--context", "32"}, {"--global-batch", "32"}, {"--steps", "50"}})}};
  }();
  return *presets;
}

}  // namespace

bool parse_ddp(Options& o, const std::vector<std::string>& arguments, std::string& help) {
  OptionParser p("ddp",
                 "Times data-parallel training: every rank its own rows, gradients averaged over "
                 "ranks.");
  DdpOptions& d = o.ddp;
  o.model.timing = Timing::step;
  add_run_options(p, o.run);
  add_model_options(p, o);
  p.choices("--sync", d.syncs, {"none", "naive", "flat", "overlap", "bucketed"},
            "none; naive: an all_reduce per parameter after backward; flat: one of all gradients; "
            "overlap: each parameter's as its gradient is ready; bucketed, a,b [bucketed]");
  add_exchange_options(p, d, 5);
  p.text("--predict", d.predict,
         "a file of collectives --fit: the bucket equation beside what is measured");
  p.config_file();
  std::map<std::string, std::string> exclusions = preset_exclusions();
  exclusions["--batch-size"] = "--global-batch";
  p.presets(ddp_presets(), exclusions);
  p.not_built(model_options_not_built());
  help = p.help();
  if (!p.parse(arguments, o.given)) return false;
  finish_model_options(p, o);
  const auto has = [](const Values& values, const char* value) {
    return std::find(values.begin(), values.end(), value) != values.end();
  };
  for (const char* of_buckets : {"--bucket-mb", "--predict"}) {
    if (p.by_name(of_buckets) && !has(d.syncs, "bucketed")) {
      throw UsageError(std::string(of_buckets) + ": goes with --sync bucketed");
    }
  }
  for (const char* of_exchanges : {"--comm-dtype", "--registration", "--verify"}) {
    if (p.by_name(of_exchanges) && d.syncs == Values{"none"}) {
      throw UsageError(std::string(of_exchanges) + ": --sync none exchanges nothing; leave it out");
    }
  }
  check_exchange_options(o);
  return true;
}

}  // namespace paceline
