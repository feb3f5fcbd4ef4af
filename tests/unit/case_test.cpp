#include "measure/case.h"

#include <gtest/gtest.h>

#include <set>

namespace paceline {
namespace {

Case sample_case() {
  Case c;
  c.set("size", std::string("small"));
  c.set("context", std::int64_t{128});
  c.set("lr", 1e-3);
  c.set("deterministic", true);
  return c;
}

TEST(CaseId, NamesFactorsAndIsStable) {
  // A literal: ids in files of older releases must not change.
  EXPECT_EQ(sample_case().id({"size", "context"}), "small-128-" + sample_case().id({}));
  EXPECT_EQ(sample_case().id({}).size(), 8U);
  EXPECT_EQ(sample_case().id({"size"}), "small-a5f26b5f");
}

TEST(CaseId, HasOnlyCharactersOfPlainFileNames) {
  Case c;
  c.set("path", std::string("a/b c\xc3\xa9:*.h5"));
  c.set("lr", 1e-8);
  const std::string id = c.id({"path", "lr"});
  EXPECT_EQ(id.substr(0, id.rfind('-')), "a_b_c____.h5-1e_08");
  c.set("path", std::string(1000, 'x'));
  EXPECT_LT(c.id({"path"}).size(), 200U);
}

TEST(CaseId, DiffersWithEveryFactor) {
  std::set<std::string> ids{sample_case().id({"size"})};
  Case c = sample_case();
  c.set("lr", 2e-3);
  ids.insert(c.id({"size"}));
  c = sample_case();
  c.set("context", 128.0);  // another type is another factor
  ids.insert(c.id({"size"}));
  c = sample_case();
  c.set("eps", 1e-8);
  ids.insert(c.id({"size"}));
  Case shifted;  // "ab", "c" against "a", "bc"
  shifted.set("ab", std::string("c"));
  ids.insert(shifted.id({}));
  shifted = {};
  shifted.set("a", std::string("bc"));
  ids.insert(shifted.id({}));
  EXPECT_EQ(ids.size(), 6U);
}

TEST(CaseId, IsNotTheNameOfAHiddenFile) {
  Case c = sample_case();
  c.set("size", std::string("../small"));
  EXPECT_TRUE(c.id({"size"}).starts_with("_._small-")) << c.id({"size"});
}

TEST(CaseId, EndsInItsHash) {
  EXPECT_TRUE(ends_in_case_hash(sample_case().id({"size", "context"})));
  EXPECT_TRUE(ends_in_case_hash(sample_case().id({})));
  for (const char* name : {"", "a", "0123abc", "0123ABCD", "notes", "0123abcd.h5"}) {
    EXPECT_FALSE(ends_in_case_hash(name)) << name;
  }
}

TEST(CaseId, IsAcceptedByIsCaseId) {
  EXPECT_TRUE(is_case_id(sample_case().id({"size", "context"})));
  for (const char* name :
       {"", ".", "..", "../0123abcd", "a/0123abcd", "-0123abcd", "a\n0123abcd", "a 0123abcd"}) {
    EXPECT_FALSE(is_case_id(name)) << name;
  }
  EXPECT_FALSE(is_case_id(std::string(300, 'a')));
}

}  // namespace
}  // namespace paceline
