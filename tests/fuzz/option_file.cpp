// --config: a TOML file of options of every type. The output of --print-config must parse to the
// same options.

#include "harness/factor_options.h"
#include "harness/option_parser.h"
#include "tests/fuzz/fuzz.h"

using namespace paceline;

namespace {

struct FuzzCase {
  std::int64_t whole = 8;
  double real = 0.5;
  ByteCount size = {1};
  bool flag = false;
  YesNo choice = YesNo::no;
  std::string text = "a";
};

Factors<FuzzCase> factors() {
  constexpr double most = 1 << 20;
  return {axis<FuzzCase>(&FuzzCase::whole, "whole", "").from(1, most),
          axis<FuzzCase>(&FuzzCase::real, "real", "").from(0, most),
          axis<FuzzCase>(&FuzzCase::size, "size", ""),
          setting<FuzzCase>(&FuzzCase::flag, "flag", "").implicit("yes"),
          axis<FuzzCase>(&FuzzCase::choice, "choice", ""),
          setting<FuzzCase>(&FuzzCase::text, "text", "")};
}

struct Read {
  GivenOptions given;
  std::string as_file;
};

Read read(std::string_view toml) {
  const fuzz::MemoryFile file(toml);
  FactorOptions<FuzzCase> options{factors()};
  OptionParser p("fuzz", "");
  options.declare(p);
  bool quiet = false;
  p.flag("--quiet", quiet, "");
  p.config_file();
  p.presets({{"small", "--whole 1,2 --real 1..8*2"}}, {});
  Read read;
  fuzz::require(p.parse({"--config", file.path()}, read.given));
  read.as_file = p.as_file();
  return read;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::accepted([&] {
    const Read once = read(fuzz::text_of(data, size));
    Read twice;
    fuzz::require(fuzz::accepted([&] { twice = read(once.as_file); }));
    fuzz::require(once.as_file == twice.as_file);
  });
  return 0;
}
