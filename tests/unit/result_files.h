#pragma once
// Helpers for tests of result files.

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/error.h"
#include "record/case_file.h"
#include "record/result_file.h"
#include "records.h"
#include "temp_folder.h"

namespace paceline {

inline hdf5::File open_result_file(const std::filesystem::path& path) {
  return hdf5::File::open(path);
}
inline std::vector<Column> read_summary(const std::filesystem::path& path) {
  return read_summary(hdf5::File::open(path));
}

class ResultFiles : public testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path root() const { return temp_.path(); }
  [[nodiscard]] std::filesystem::path path() const { return root() / "F.h5"; }
  [[nodiscard]] std::filesystem::path folder() const { return root() / "F.h5.cases"; }

  // Writes and merges F.h5 with these records.
  void make_file(const std::vector<CaseRecord>& records, bool complete = true) const {
    ResultFile file(path(), ResultFile::Existing::replace, "model");
    std::vector<std::string> ids;
    for (const CaseRecord& record : records) {
      file.write(record, make_run());
      ids.push_back(record.id);
    }
    file.merge(ids, complete);
  }
  [[nodiscard]] std::vector<std::string> case_names() const {
    return open_result_file(path()).group("cases").names();
  }
  [[nodiscard]] std::vector<std::int64_t> contexts() const {
    return values<std::int64_t>(read_summary(path()), "context");
  }

 private:
  TempFolder temp_;
};

// The message of the UsageError that work() throws.
inline std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "(no UsageError)";
}

// A record of two ranks and two phases, with tables and an additional column.
inline CaseRecord rich_record() {
  CaseRecord record = make_record(128, {});
  record.factors.set("lr", 0.001);
  record.factors.set("deterministic", true);
  record.samples = {{"forward", {{7, 8}, {9, 10}}, {{1, 2, 3}, {4, 5, 6}}},
                    {"step", {{7, 8}, {9, 10}}, {{0.1, 0.2, 0.3}, {0.4, 0.5, 0.6}}}};
  record.tables = {{"memory",
                    {{"mark", "", std::vector<std::string>{"after init"}},
                     {"bytes", "bytes", std::vector<std::int64_t>{12}}}},
                   {"memory/blocks", {{"scope", "", std::vector<std::string>{"a", "b"}}}}};
  record.summary = {{"tokens_per_s", 10.5, "1/s"}};
  return record;
}

}  // namespace paceline
