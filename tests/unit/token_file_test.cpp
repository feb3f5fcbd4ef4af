// The rows that a rank reads from a token file.

#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "core/hdf5.h"
#include "core/step_state.h"
#include "model/batch.h"
#include "temp_folder.h"

namespace paceline {
namespace {

class TokenFileTest : public testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path path() const { return temp_.path() / "tokens"; }
  // Matrices [5, 4] whose elements [r, c] are 10 r + c in tokens and 500 more in targets.
  void write_hdf5(bool with_targets) const {
    const hdf5::File file = hdf5::File::in_memory();
    for (const auto& [name, first] : {std::pair("tokens", 0), std::pair("targets", 500)}) {
      std::vector<std::int64_t> values;
      for (std::int64_t i = 0; i < 20; ++i) values.push_back(first + 10 * (i / 4) + i % 4);
      if (first > 0 && !with_targets) continue;
      file.write(name, std::span<const std::int64_t>(values), {5, 4});
    }
    std::ofstream(path(), std::ios::binary) << file.image();
  }

 private:
  TempFolder temp_;
};

// Rows 2 and 3, with T = 3.
constexpr BatchShape two_rows{.first_row = 2, .rows = 2, .context = 3, .vocab = 1000};

TEST_F(TokenFileTest, AFlatFileFromTheFirstRowOn) {
  {
    std::ofstream out(path(), std::ios::binary);
    for (std::uint16_t id = 100; id < 120; ++id) {
      out.write(reinterpret_cast<const char*>(&id), sizeof id);
    }
  }
  const Batch batch = load_batch(path(), two_rows);
  EXPECT_EQ(batch.tokens, (std::vector<std::int32_t>{106, 107, 108, 109, 110, 111}));
  EXPECT_EQ(batch.targets, (std::vector<std::int32_t>{107, 108, 109, 110, 111, 112}));
}

TEST_F(TokenFileTest, AnHdf5FileFromTheFirstRowOn) {
  write_hdf5(false);
  const Batch batch = load_batch(path(), two_rows);
  EXPECT_EQ(batch.tokens, (std::vector<std::int32_t>{20, 21, 22, 30, 31, 32}));
  EXPECT_EQ(batch.targets, (std::vector<std::int32_t>{21, 22, 23, 31, 32, 33}));
}

std::string tokens_refusal(const std::filesystem::path& file, const BatchShape& wanted) {
  try {
    (void)load_batch(file, wanted);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST_F(TokenFileTest, TheLastPositionOfAnHdf5RowHasNoTarget) {
  write_hdf5(false);
  BatchShape whole = two_rows;
  whole.context = 4;
  const Batch batch = load_batch(path(), whole);
  EXPECT_EQ(batch.tokens, (std::vector<std::int32_t>{20, 21, 22, 23, 30, 31, 32, 33}));
  EXPECT_EQ(batch.targets,
            (std::vector<std::int32_t>{21, 22, 23, no_target, 31, 32, 33, no_target}));
  whole.context = 5;
  EXPECT_NE(tokens_refusal(path(), whole).find("[4, 5] are needed"), std::string::npos);
}

TEST_F(TokenFileTest, ABadIdIsNamedWithItsPlace) {
  write_hdf5(true);
  BatchShape few = two_rows;
  few.vocab = 531;
  EXPECT_NE(tokens_refusal(path(), few).find("holds 531 as targets[3, 1]"), std::string::npos)
      << tokens_refusal(path(), few);
  few.vocab = 31;
  EXPECT_NE(tokens_refusal(path(), few).find("holds 31 as tokens[3, 1]"), std::string::npos);
}

TEST_F(TokenFileTest, AnHdf5FileWithTargets) {
  write_hdf5(true);
  const Batch batch = load_batch(path(), two_rows);
  EXPECT_EQ(batch.tokens, (std::vector<std::int32_t>{20, 21, 22, 30, 31, 32}));
  EXPECT_EQ(batch.targets, (std::vector<std::int32_t>{520, 521, 522, 530, 531, 532}));
}

}  // namespace
}  // namespace paceline
