#include "core/toml.h"

#include <gtest/gtest.h>

#include <fstream>

#include "temp_folder.h"

namespace paceline {
namespace {

std::string refusal_of(const std::string& text) {
  try {
    (void)parse_toml(text, "f.toml");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Toml, ValuesHaveTheirTypesAndPlaces) {
  const TomlDocument d = parse_toml(
      "zeta = 'text'\nalpha = 1_000\n\nreal = 1e-8\n  yes = true\nlist = [ 1, \"2\" ]\n"
      "when = 1979-05-27\n[part]\ninner.deep = 0x10\n",
      "f.toml");
  std::vector<std::string> keys;
  for (const TomlEntry& e : d.root.entries) keys.push_back(e.key);
  EXPECT_EQ(keys,
            (std::vector<std::string>{"zeta", "alpha", "real", "yes", "list", "when", "part"}));
  EXPECT_EQ(std::get<std::string>(d.root.find("zeta")->value.value), "text");
  EXPECT_EQ(std::get<std::int64_t>(d.root.find("alpha")->value.value), 1000);
  EXPECT_EQ(std::get<double>(d.root.find("real")->value.value), 1e-8);
  EXPECT_TRUE(std::get<bool>(d.root.find("yes")->value.value));
  EXPECT_EQ(d.root.find("yes")->at.line, 5U);
  EXPECT_EQ(d.root.find("yes")->at.column, 3U);
  EXPECT_EQ(d.root.find("yes")->value.at.column, 9U);
  const auto& list = std::get<TomlArray>(d.root.find("list")->value.value);
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(kind_of(list[0]), "an integer");
  EXPECT_EQ(kind_of(list[1]), "a string");
  EXPECT_EQ(list[1].at.column, 13U);
  EXPECT_EQ(std::get<TomlDateTime>(d.root.find("when")->value.value).text, "1979-05-27");
  const auto& part = std::get<TomlTable>(d.root.find("part")->value.value);
  EXPECT_EQ(kind_of(part.find("inner")->value), "a table");
  EXPECT_EQ(part.find("outer"), nullptr);
}

TEST(Toml, RefusalsNameFileLineAndColumn) {
  EXPECT_TRUE(refusal_of("a = 1\nb = \n").starts_with("f.toml:2:5: "))
      << refusal_of("a = 1\nb = \n");
  EXPECT_TRUE(refusal_of("a = 1\na = 2\n").starts_with("f.toml:2:"))
      << refusal_of("a = 1\na = 2\n");
  EXPECT_TRUE(refusal_of("a = '\xff'\n").starts_with("f.toml:1:"));
  EXPECT_TRUE(refusal_of(std::string("a = 1\0", 6)).starts_with("f.toml:1:"));
  EXPECT_NE(refusal_of("a = " + std::string(100'000, '[')), "");
  EXPECT_EQ(refusal_of("a = \"\"\"x\n"
                       "y")
                .find('\n'),
            std::string::npos);
}

TEST(Toml, FilesThatCannotBeReadAreRefused) {
  const TempFolder folder;
  EXPECT_THROW((void)read_toml((folder.path() / "absent.toml").string()), UsageError);
  EXPECT_THROW((void)read_toml((folder.path() / "").string()), UsageError);
  EXPECT_THROW((void)read_toml("/dev/zero"), UsageError);
  std::ofstream((folder.path() / "f.toml").string()) << "\xef\xbb\xbf"
                                                     << "a = 1\r\n";
  EXPECT_NE(read_toml((folder.path() / "f.toml").string()).root.find("a"), nullptr);
}

TEST(Toml, QuotedTextReadsBack) {
  const std::string text = "a \"b\" \\c\n\t\x01\x7f é";
  const TomlDocument d = parse_toml("k = " + toml_quoted(text), "f.toml");
  EXPECT_EQ(std::get<std::string>(d.root.find("k")->value.value), text);
}

// toml++'s assertions exclude these.
TEST(Toml, InvalidDatesAndKeysAreRefused) {
  for (const char* text : {"a = 1979-05-27T:7:32:00Z\n", "a = 1979-05-27T-27T07:32:00]\n",
                           "[= 3350\n", "a = { si =1, }\n", "[[\x02value]]\n"}) {
    EXPECT_TRUE(refusal_of(text).starts_with("f.toml:")) << text;
  }
}

TEST(Toml, LettersOutsideOfTextAreAscii) {
  for (const char* text : {"\xc3\xa9 = 1\n", "a = 1\xc3\xa9\n", "a = 80[\"\xc5\xa4\"]\n"}) {
    EXPECT_NE(refusal_of(text), "") << text;
  }
  EXPECT_EQ(refusal_of("\xef\xbb\xbf\"\xc3\xa9\" = '\xc3\xa9' # \xc3\xa9\n"), "");
}

// With 200,000 parts toml++ would overflow the stack.
TEST(Toml, KeysOfManyPartsAreRefused) {
  std::string key = "a";
  for (int i = 0; i < 200'000; ++i) key += ".a";
  EXPECT_EQ(refusal_of(key + " = 1\n"), "f.toml: has a key of more than 32 parts");
  EXPECT_EQ(refusal_of("[" + key + "]\n"), "f.toml: has a key of more than 32 parts");
}

TEST(Toml, PartsAreThoseOfKeysAlone) {
  EXPECT_EQ(max_key_parts("a . \"b.\\\".c\".'d.e' = 1.5"), 3U);
  EXPECT_EQ(max_key_parts("a = '....' # ...\nb = [0.1, 0.2, 0.3]"), 2U);
  EXPECT_EQ(max_key_parts("a = \"\"\"\n.\"..\"\"\"\"\nb.c = 1"), 2U);
  EXPECT_EQ(max_key_parts("a = \"unfinished ..."), 1U);
}

}  // namespace
}  // namespace paceline
