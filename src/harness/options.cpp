#include "harness/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/error.h"
#include "core/units.h"
#include "harness/option_parser.h"
#include "harness/run_options.h"
#include "record/environment.h"

namespace paceline {

namespace {

constexpr std::string_view overview =
    R"(paceline measures how language models train, on every rank of an MPI launch.

usage: paceline EXPERIMENT [options]        mpirun -np N paceline EXPERIMENT [options]

  model      end-to-end steps of a Transformer: forward, backward, AdamW
  attention  one attention, three ways: naive, fused, flash
  ddp        the same steps, data-parallel: gradients averaged over ranks
  zero       the same with the optimizer's state sharded over ranks
  collectives  all_reduce and others over ranks, sizes and dtypes
  info       ranks, devices and library versions; --ceilings measures what they can do
  merge      rebuilds a result file from its finished cases after a crash
  compare    case by case, is B faster or slower than A?

paceline EXPERIMENT --help lists the options of one. Options of the kind "a,b" are axes: the cases
are the product of all of them.
)";

std::string quoted(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789_@%+=:,./-") == std::string::npos;
  if (plain) return word;
  std::string q = "'";
  for (const char c : word) q += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return q + "'";
}

bool parse_info(Options& o, const std::vector<std::string>& arguments, std::string& help) {
  OptionParser p("info", "Prints ranks, devices and library versions.");
  p.choice("--device", o.run.device, {"auto", "cpu", "cuda"}, "auto, cpu or cuda [auto]");
  p.integer("--threads", o.run.threads, 1, 4096,
            "CPU threads per rank [usable cores / ranks on the node]");
  add_timeout(p, o.run);
  p.flag("--ceilings", o.ceilings, "measure them: GEMM per precision, copy bandwidth");
  help = p.help();
  return p.parse(arguments, o.given);
}

bool parse_files(Options& o, const std::vector<std::string>& arguments, std::string& help) {
  const bool merge = o.experiment == "merge";
  OptionParser p(o.experiment, merge ? "Rebuilds F.h5 from F.h5.cases/ after a crash."
                                     : "Says of every case in both files whether the second is "
                                       "faster or slower; exits 1 on a regression.");
  p.files(o.files, merge ? 1 : 2, merge ? "the result file to rebuild" : "A.h5 B.h5");
  if (!merge) p.flag("--any-machine", o.any_machine, "compare runs of unlike machines too");
  help = p.help();
  return p.parse(arguments, o.given);
}

}  // namespace

Options parse_options(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) throw UsageError("no experiment; see paceline --help");
  Options o;
  o.experiment = arguments.front();
  for (int i = 0; i < argc; ++i) o.command += (i > 0 ? " " : "") + quoted(argv[i]);
  if (o.experiment == "--help" || o.experiment == "-h" || o.experiment == "--version") {
    const bool version = o.experiment == "--version";
    o.answer = version ? "paceline " + software_version() + "\n" : std::string(overview);
    return o;
  }
  using Parse = bool (*)(Options&, const std::vector<std::string>&, std::string&);
  const std::map<std::string, Parse> experiments = {{"model", parse_model},
                                                    {"attention", parse_attention},
                                                    {"ddp", parse_ddp},
                                                    {"zero", parse_zero},
                                                    {"collectives", parse_collectives},
                                                    {"info", parse_info},
                                                    {"merge", parse_files},
                                                    {"compare", parse_files}};
  const auto it = experiments.find(o.experiment);
  if (it == experiments.end()) {
    for (const char* later : {"precision", "plan"}) {
      if (o.experiment == later) throw UsageError("'" + o.experiment + "' is not built yet");
    }
    throw UsageError(
        "'" + o.experiment +
        "' is no experiment; choose model, attention, ddp, zero, collectives, info, merge or "
        "compare");
  }
  std::string help;
  if (!it->second(o, {arguments.begin() + 1, arguments.end()}, help)) {
    o.experiment += " --help";
    o.answer = std::move(help);
  }
  return o;
}

}  // namespace paceline
