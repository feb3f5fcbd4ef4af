// Ranks with different sweeps: all ranks throw before the first case that differs, and none hangs.

#include <gtest/gtest.h>

#include <atomic>

#include "core/error.h"
#include "harness/experiment.h"
#include "tests/unit/records.h"
#include "tests/unit/temp_folder.h"
#include "tests/unit/thread_world.h"

namespace paceline {
namespace {

// An experiment with one case per context.
class Contexts final : public Experiment {
 public:
  explicit Contexts(const std::vector<std::int64_t>& contexts) {
    for (const std::int64_t context : contexts) {
      Case& c = recorded_.emplace_back();
      c.set("size", std::string("small"));
      c.set("context", context);
    }
    naming_ = record_factors;
  }
  [[nodiscard]] std::string name() const override { return "contexts"; }
  [[nodiscard]] Prediction predict(std::size_t /*index*/) const override { return {}; }
  [[nodiscard]] std::string cannot_run(std::size_t /*index*/) const override { return ""; }
  void validate(std::size_t /*index*/) const override {}
  [[nodiscard]] CaseRecord run(std::size_t index, Progress& /*progress*/) override {
    ++runs;
    return make_record(std::get<std::int64_t>(cases().at(index).at("context")), {1});
  }
  [[nodiscard]] std::vector<ShownColumn> shown_columns() const override { return {}; }
  [[nodiscard]] std::string notes() const override { return ""; }

  int runs = 0;
};

// The error message of both ranks, and the number of cases that each has run.
struct SweepEnd {
  std::string message;
  int runs = 0;
};

SweepEnd end_of(const std::vector<std::int64_t>& first, const std::vector<std::int64_t>& second) {
  const TempFolder folder;
  std::vector<SweepEnd> ends(2);
  ThreadWorld::run(2, [&](World& world) {
    Contexts contexts(world.rank() == 0 ? first : second);
    SweepEnd& end = ends[static_cast<std::size_t>(world.rank())];
    RunOptions options;
    options.output = (folder.path() / "out.h5").string();
    options.quiet = true;
    options.json = true;
    try {
      (void)run_sweep(contexts, world, make_run(2), options);
    } catch (const Error& error) {
      end.message = error.what();
      EXPECT_EQ(error.code(), ExitCode::usage);
    }
    end.runs = contexts.runs;
  });
  EXPECT_EQ(ends[0].message, ends[1].message);
  EXPECT_EQ(ends[0].runs, ends[1].runs);
  return ends[0];
}

TEST(Sweep, EndsBeforeACaseThatIsNotTheSameOnAllRanks) {
  const SweepEnd end = end_of({8, 16, 32}, {8, 64, 32});
  EXPECT_EQ(end.message,
            "case: context 16 (rank 0), context 64 (rank 1); give every rank the same program and "
            "the same files");
  EXPECT_EQ(end.runs, 1);
}

TEST(Sweep, DoesNotBeginWithMoreCasesOnOneRank) {
  const SweepEnd end = end_of({8, 16}, {8, 16, 32});
  EXPECT_EQ(end.message,
            "number of cases: 2 (rank 0), 3 (rank 1); give every rank the same program and the "
            "same files");
  EXPECT_EQ(end.runs, 0);
}

}  // namespace
}  // namespace paceline
