#include "core/toml.h"

#include <gtest/gtest.h>

#include <fstream>

#include "harness/option_parser.h"
#include "temp_folder.h"

namespace paceline {
namespace {

std::string refusal_of(const std::string& text) {
  const TempFolder folder;
  const std::string file = (folder.path() / "f.toml").string();
  std::ofstream(file) << text;
  try {
    (void)read_toml(file);
  } catch (const UsageError& error) {
    return std::string(error.what()).substr(folder.path().string().size() + 1);
  }
  return "";
}

TEST(Toml, RefusalsNameFileLineAndColumn) {
  EXPECT_EQ(refusal_of("a = 1\n"), "");
  EXPECT_EQ(refusal_of(""), "");
  const std::string refusal = refusal_of("a = 1\nb = c\n");
  EXPECT_TRUE(refusal.starts_with("f.toml:2:5: ")) << refusal;
  EXPECT_NE(refusal.find("text needs quotes"), std::string::npos) << refusal;
  for (const std::string& text :
       {std::string("a = '\xff'\n"), std::string("a = 1\0", 6), "a = " + std::string(100'000, '['),
        std::string("a = 1979-05-27T:7:32:00Z\n"), std::string("a = { si =1, }\n")}) {
    EXPECT_TRUE(refusal_of(text).starts_with("f.toml:1:")) << text;
  }
}

TEST(Toml, FilesThatCannotBeReadAreRefused) {
  const TempFolder folder;
  EXPECT_THROW((void)read_toml((folder.path() / "absent.toml").string()), UsageError);
  EXPECT_THROW((void)read_toml(folder.path().string()), UsageError);
  EXPECT_THROW((void)read_toml("/dev/zero"), UsageError);
}

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
