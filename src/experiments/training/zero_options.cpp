// The command line of `zero`.

#include <map>

#include "harness/run_options.h"

namespace paceline {

namespace {

const std::map<std::string, std::vector<std::string>>& zero_presets() {
  static const auto* const presets = [] {
    std::vector<std::string> course = course_preset();
    for (const char* word :
         {"--shard", "none,broadcast,zero1", "--bucket-mb", "25", "--comm-dtype", "fp32"}) {
      course.emplace_back(word);
    }
    return new std::map<std::string, std::vector<std::string>>{{"course", course}};
  }();
  return *presets;
}

}  // namespace

bool parse_zero(Options& o, const std::vector<std::string>& arguments, std::string& help) {
  OptionParser p("zero",
                 "Times data-parallel training whose optimizer's state is sharded over ranks.");
  o.model.timing = Timing::step;
  add_run_options(p, o.run);
  add_model_options(p, o);
  p.choices("--shard", o.ddp.shards, {"none", "broadcast", "zero1"},
            "none: bucketed ddp; broadcast: whole tensors have owners, who update and broadcast "
            "them; zero1: reduce_scatter of gradients, all_gather of parameters beside the next "
            "forward, a,b [zero1]");
  add_exchange_options(p, o.ddp, 10);
  p.config_file();
  std::map<std::string, std::string> exclusions = preset_exclusions();
  exclusions["--batch-size"] = "--global-batch";
  p.presets(zero_presets(), exclusions);
  p.not_built(model_options_not_built());
  help = p.help();
  if (!p.parse(arguments, o.given)) return false;
  finish_model_options(p, o);
  check_exchange_options(o);
  return true;
}

}  // namespace paceline
