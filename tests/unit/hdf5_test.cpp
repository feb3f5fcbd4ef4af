#include "core/hdf5.h"

#include <gtest/gtest.h>

#include <fstream>

#include "temp_folder.h"

namespace paceline::hdf5 {
namespace {

TEST(Hdf5, AttributesOfEveryType) {
  const File made = File::in_memory();
  made.set_attribute("text", 1.5);  // replaced by a value of another type
  made.set_attribute("text", std::string("f\xc3\xbcnf, \"5\""));
  made.set_attribute("empty", std::string());
  made.set_attribute("integer", std::int64_t{-9'007'199'254'740'993});
  made.set_attribute("real", 0.1);
  made.set_attribute("yes", true);
  made.set_attribute("no", false);
  const File file = File::of_image(made.image());
  EXPECT_EQ(file.attribute("text"), Attribute("f\xc3\xbcnf, \"5\""));
  EXPECT_EQ(file.attribute("empty"), Attribute(""));
  EXPECT_EQ(file.attribute("integer"), Attribute(std::int64_t{-9'007'199'254'740'993}));
  EXPECT_EQ(file.attribute("real"), Attribute(0.1));
  EXPECT_EQ(file.attribute("yes"), Attribute(true));
  EXPECT_EQ(file.attribute("no"), Attribute(false));
  EXPECT_EQ(file.attribute_names(),
            (std::vector<std::string>{"empty", "integer", "no", "real", "text", "yes"}));
  EXPECT_TRUE(file.has_attribute("yes"));
  EXPECT_FALSE(file.has_attribute("maybe"));
  EXPECT_EQ(file.text_attribute("text"), "f\xc3\xbcnf, \"5\"");
  EXPECT_EQ(file.text_attribute("integer"), "");
  EXPECT_EQ(file.text_attribute("maybe"), "");
  EXPECT_THROW((void)file.attribute("maybe"), Hdf5Error);
}

// More than one conversion buffer holds.
TEST(Hdf5, ManyTexts) {
  std::vector<std::string> texts;
  for (int i = 0; i < 100'000; ++i) texts.push_back(std::to_string(i));
  const File file = File::in_memory();
  EXPECT_EQ(file.write("texts", texts).read<std::string>(), texts);
}

TEST(Hdf5, ColumnsOfNumbersAndText) {
  const std::vector<double> reals = {1.5, -2.5, 1e300};
  const std::vector<std::int64_t> integers = {1, -2, std::int64_t{1} << 62};
  const std::vector<std::string> texts = {"a", "", "\xc3\xa9t\xc3\xa9"};
  const File made = File::in_memory();
  made.write("reals", reals).set_attribute("unit", std::string("s"));
  made.write("integers", integers);
  made.write("texts", texts);
  const File file = File::of_image(made.image());
  EXPECT_EQ(file.dataset("reals").read<double>(), reals);
  EXPECT_EQ(file.dataset("reals").text_attribute("unit"), "s");
  EXPECT_EQ(file.dataset("integers").read<std::int64_t>(), integers);
  EXPECT_EQ(file.dataset("texts").read<std::string>(), texts);
  EXPECT_EQ(file.dataset("reals").type_class(), H5T_FLOAT);
  EXPECT_EQ(file.dataset("integers").type_class(), H5T_INTEGER);
  EXPECT_EQ(file.dataset("texts").type_class(), H5T_STRING);
  EXPECT_THROW((void)file.dataset("reals").read<std::string>(), Hdf5Error);
  EXPECT_THROW((void)file.dataset("texts").read<double>(), Hdf5Error);
}

TEST(Hdf5, EmptyColumns) {
  const File file = File::in_memory();
  EXPECT_EQ(file.write("reals", std::vector<double>{}).read<double>(), std::vector<double>{});
  EXPECT_EQ(file.write("texts", std::vector<std::string>{}).read<std::string>(),
            std::vector<std::string>{});
  EXPECT_EQ(file.write("none", std::span<const double>{}, {2, 0}).dims(), (Dims{2, 0}));
}

TEST(Hdf5, GroupsKeepTheOrderOfTheirMembers) {
  const File made = File::in_memory();
  const Group inner = made.make_group("outer/inner");
  inner.write("zebra", std::vector<double>{1});
  inner.write("ant", std::vector<double>{2});
  (void)inner.make_group("moth");
  (void)made.make_group("outer/inner");  // an existing group is returned
  const File file = File::of_image(made.image());
  EXPECT_EQ(file.group("outer/inner").names(), (std::vector<std::string>{"zebra", "ant", "moth"}));
  EXPECT_TRUE(file.has("outer"));
  EXPECT_TRUE(file.has("outer/inner/ant"));
  EXPECT_FALSE(file.has("outer/none/ant"));
  EXPECT_THROW((void)file.group("none"), Hdf5Error);
  EXPECT_THROW((void)file.dataset("outer/none"), Hdf5Error);
}

TEST(Hdf5, ErrorsNameTheCauseInPlainWordsAndPrintNothing) {
  const TempFolder folder;
  const std::filesystem::path path = folder.path() / "test.h5";
  testing::internal::CaptureStderr();
  try {
    (void)File::open(path);
    FAIL();
  } catch (const Hdf5Error& error) {
    EXPECT_STREQ(error.what(), "No such file or directory");
  }
  std::ofstream(path) << "this is no HDF5 file";
  try {
    (void)File::open(path);
    FAIL();
  } catch (const Hdf5Error& error) {
    EXPECT_STREQ(error.what(), "it is not an HDF5 file, or a damaged one");
  }
  EXPECT_FALSE(File::is_hdf5(path));
  EXPECT_FALSE(File::is_hdf5("/proc/none/x.h5"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Hdf5, HandlesCloseThemselves) {
  const auto open_ids = [] { return H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL); };
  const auto before = open_ids();
  {
    const File file = File::in_memory();
    Group a = file.make_group("a");
    Group b = file.make_group("b");
    a = std::move(b);
    const Dataset dataset = a.write("values", std::vector<double>{1});
    EXPECT_THROW((void)a.dataset("none"), Hdf5Error);
    EXPECT_EQ(open_ids(), before + 4);
  }
  EXPECT_EQ(open_ids(), before);
}

TEST(Hdf5, LongColumnsAreCompressedAndReadBack) {
  std::vector<double> values(100'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 7);
  const File file = File::in_memory();
  EXPECT_EQ(file.write("values", values).read<double>(), values);
  EXPECT_LT(file.image().size(), values.size());
}

}  // namespace
}  // namespace paceline::hdf5
