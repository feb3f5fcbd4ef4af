#include "harness/option_file.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

using Texts = std::vector<std::string>;

const OptionTraits whole_numbers{.type = ValueType::integer, .list = true};
const OptionTraits one_real{.type = ValueType::real};
const OptionTraits yes_no{.type = ValueType::yes_no, .list = true};

TEST(OptionFile, LinesAreWhatTomlHas) {
  EXPECT_EQ(option_line("context", {"128"}, whole_numbers), "context = 128");
  EXPECT_EQ(option_line("context", {"128,8..32*2"}, whole_numbers), "context = [128, \"8..32*2\"]");
  EXPECT_EQ(option_line("eps", {"1e-8"}, one_real), "eps = 1e-8");
  // Not TOML's numbers.
  for (const char* text : {".5", "1.", "01", "1e", "+1"}) {
    EXPECT_EQ(option_line("eps", {text}, one_real), "eps = \"" + std::string(text) + "\"");
  }
  EXPECT_EQ(option_line("causal", {"yes,no"}, yes_no), "causal = [true, false]");
  EXPECT_EQ(option_line("output", {"a,\"b\".h5"}, {}), "output = \"a,\\\"b\\\".h5\"");
}

TEST(OptionFile, NumbersAreComparedByValue) {
  EXPECT_TRUE(same_values({"1e-8"}, {"1e-08"}));
  EXPECT_TRUE(same_values({"8", "16"}, {"8,16"}));
  EXPECT_FALSE(same_values({"8"}, {"8,16"}));
  EXPECT_FALSE(same_values({"small"}, {"large"}));
}

}  // namespace
}  // namespace paceline
