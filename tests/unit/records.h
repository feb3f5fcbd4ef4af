#pragma once
// Case records and runs for tests of src/record and of the harness.

#include <string>
#include <vector>

#include "record/case_record.h"
#include "record/environment.h"

namespace paceline {

inline const std::vector<std::string> record_factors = {"size", "context"};

// A case of one phase on one rank, with these repetitions.
inline CaseRecord make_record(std::int64_t context, const std::vector<double>& seconds,
                              const std::string& size = "small") {
  CaseRecord record;
  record.factors.set("size", size);
  record.factors.set("context", context);
  record.id = record.factors.id(record_factors);
  record.stop_reason = "steps";
  record.samples = {{"step", {{9.5}}, {seconds}}};
  return record;
}

inline CaseRecord make_oom(std::int64_t context) {
  CaseRecord record = make_record(context, {});
  record.samples.clear();
  record.status = Status::oom;
  record.reason = "2 GB asked for";
  return record;
}

inline RunInfo make_run(int ranks = 1, const std::string& cpu = "Some CPU") {
  RunInfo run;
  run.command = "paceline model --size small";
  run.experiment = "model";
  run.started = "2026-11-24T15:06:39.123Z";
  run.environment = {{"mpi", "Open MPI 4.1.4"}, {"NCCL_DEBUG", "INFO"}};
  for (int rank = 0; rank < ranks; ++rank) {
    run.ranks.push_back(
        {rank,
         "node1",
         cpu,
         rank,
         "0-3",
         {.kind = DeviceKind::cpu, .name = cpu, .memory_bytes = 1'000'000, .threads = 2}});
  }
  return run;
}

// The values of a column of doubles, integers or text.
template <class T>
const std::vector<T>& values(const std::vector<Column>& columns, const std::string& name) {
  const Column* column = find_column(columns, name);
  if (column == nullptr) throw std::runtime_error("no column " + name);
  return std::get<std::vector<T>>(column->data);
}

}  // namespace paceline
