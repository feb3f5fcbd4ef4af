#include <gtest/gtest.h>

#include "harness/option_parser.h"

namespace paceline {
namespace {

using Texts = std::vector<std::string>;

TEST(OptionFile, LinesAreWhatTomlHas) {
  EXPECT_EQ(option_line("context", Texts{"128"}, ValueType::integer), "context = 128");
  EXPECT_EQ(option_line("context", Texts{"128", "8..32*2"}, ValueType::integer),
            "context = [128, \"8..32*2\"]");
  EXPECT_EQ(option_line("eps", Texts{"1e-8"}, ValueType::real), "eps = 1e-8");
  // Not TOML's numbers.
  for (const std::string text : {".5", "1.", "01", "1e"}) {
    EXPECT_EQ(option_line("eps", Texts{text}, ValueType::real), "eps = \"" + text + "\"");
  }
  EXPECT_EQ(option_line("causal", Texts{"yes", "no"}, ValueType::yes_no), "causal = [true, false]");
  EXPECT_EQ(option_line("output", Texts{"\xc3\xa4,\"b\"\n.h5"}, ValueType::text),
            "output = \"\xc3\xa4,\\\"b\\\"\\n.h5\"");
}

}  // namespace
}  // namespace paceline
