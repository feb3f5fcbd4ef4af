#include "record/case_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "core/error.h"

namespace paceline {

namespace {

using hdf5::Dims;
using hdf5::File;
using hdf5::Group;

constexpr std::int64_t schema_version = 2;
constexpr std::int64_t oldest_schema_version = 1;

// The attributes of a case that describe its run; all others are factors.
constexpr std::array<std::string_view, 7> run_attributes = {
    "status", "reason", "stop_reason", "created", "slurm_job_id", "array_task", "restart"};

void write_column(const Group& group, const Column& column) {
  const auto write = [&](const auto& data) {
    if constexpr (std::is_same_v<std::decay_t<decltype(data)>, std::vector<std::string>>) {
      return group.write_strings(column.name, data);
    } else {
      return group.write(column.name, data);
    }
  };
  const hdf5::Dataset dataset = std::visit(write, column.data);
  if (!column.unit.empty()) dataset.set_attribute("unit", column.unit);
}

void write_columns(const Group& group, const std::vector<Column>& columns) {
  for (const Column& column : columns) {
    if (length_of(column) != length_of(columns.front())) {
      throw InternalError(fmt::format("column '{}' has another length than '{}'", column.name,
                                      columns.front().name));
    }
    write_column(group, column);
  }
}

void write_root(const File& file, const RunInfo& run, const std::string& created) {
  file.set_attribute("schema", std::string("paceline"));
  file.set_attribute("schema_version", schema_version);
  file.set_attribute("software", std::string("paceline"));
  file.set_attribute("software_version", software_version());
  file.set_attribute("created", created);
  file.set_attribute("command", run.command);
  file.set_attribute("experiment", run.experiment);
  file.set_attribute("complete", false);
  const Group environment = file.make_group("environment");
  for (const auto& [name, value] : run.environment) environment.set_attribute(name, value);
}

void write_ranks(const Group& group, const std::vector<RankInfo>& ranks) {
  const auto integers = [&](const char* name, const char* unit, auto get) {
    std::vector<std::int64_t> data;
    for (const RankInfo& rank : ranks) data.push_back(static_cast<std::int64_t>(get(rank)));
    write_column(group, {name, unit, std::move(data)});
  };
  const auto texts = [&](const char* name, auto get) {
    std::vector<std::string> data;
    for (const RankInfo& rank : ranks) data.push_back(get(rank));
    write_column(group, {name, "", std::move(data)});
  };
  integers("rank", "", [](const RankInfo& r) { return r.rank; });
  texts("host", [](const RankInfo& r) { return r.host; });
  integers("local_rank", "", [](const RankInfo& r) { return r.local_rank; });
  texts("cpu", [](const RankInfo& r) { return r.cpu; });
  texts("device_kind", [](const RankInfo& r) { return std::string(name_of(r.device.kind)); });
  texts("device", [](const RankInfo& r) { return r.device.name; });
  texts("gpu_uuid", [](const RankInfo& r) { return r.device.uuid; });
  texts("pci_bus_id", [](const RankInfo& r) { return r.device.pci_bus_id; });
  integers("threads", "", [](const RankInfo& r) { return r.device.threads; });
  integers("memory_bytes", "bytes", [](const RankInfo& r) { return r.device.memory_bytes; });
}

// samples[rank][repetition] as one dataset.
void write_samples(const Group& group, const std::string& phase,
                   const std::vector<std::vector<double>>& samples) {
  const std::size_t repetitions = samples.empty() ? 0 : samples.front().size();
  std::vector<double> flat;
  for (const std::vector<double>& rank : samples) {
    if (rank.size() != repetitions) throw InternalError("ranks have different counts of samples");
    flat.insert(flat.end(), rank.begin(), rank.end());
  }
  const Dims dims = {samples.size(), repetitions};
  group.write(phase, std::span<const double>(flat), dims).set_attribute("unit", std::string("s"));
}

void write_case(const Group& group, const CaseRecord& record, const std::string& created) {
  for (const auto& [name, value] : record.factors.factors()) group.set_attribute(name, value);
  group.set_attribute("status", std::string(name_of(record.status)));
  group.set_attribute("reason", record.reason);
  group.set_attribute("stop_reason", record.stop_reason);
  group.set_attribute("created", created);
  const auto from_slurm = [&](const char* name, const char* variable) {
    if (const char* value = std::getenv(variable)) group.set_attribute(name, std::string(value));
  };
  from_slurm("slurm_job_id", "SLURM_JOB_ID");
  from_slurm("array_task", "SLURM_ARRAY_TASK_ID");
  from_slurm("restart", "SLURM_RESTART_COUNT");

  if (!record.samples.empty()) {
    const Group measured = group.make_group("samples");
    const Group warmup = group.make_group("samples_warmup");
    for (const PhaseSamples& samples : record.samples) {
      write_samples(measured, samples.phase, samples.measured);
      write_samples(warmup, samples.phase, samples.warmup);
    }
    measured.set_attribute("headline", record.samples.back().phase);
  }
  for (const Table& table : record.tables) {
    write_columns(group.make_group(table.path), table.columns);
  }
}

void copy_attributes(const hdf5::Object& from, const hdf5::Object& to) {
  for (const std::string& name : from.attribute_names()) {
    to.set_attribute(name, from.attribute(name));
  }
}

// Everything of a file but its cases and their summary.
void copy_run(const File& from, const File& to) {
  copy_attributes(from, to);
  to.copy_from(from, "environment");
  to.copy_from(from, "ranks");
}

Column row_of(const Column& column, std::size_t row) {
  Column out{column.name, column.unit, {}};
  const auto pick = [&](const auto& data) {
    out.data = std::decay_t<decltype(data)>{data.at(row)};
  };
  std::visit(pick, column.data);
  return out;
}

Column read_column(const Group& group, const std::string& name) {
  const hdf5::Dataset dataset = group.dataset(name);
  Column column{name, dataset.text_attribute("unit"), {}};
  switch (dataset.type_class()) {
    case H5T_INTEGER: column.data = dataset.read<std::int64_t>(); break;
    case H5T_FLOAT: column.data = dataset.read<double>(); break;
    case H5T_STRING: column.data = dataset.read_strings(); break;
    default: throw Hdf5Error(fmt::format("column '{}' is neither numbers nor text", name));
  }
  return column;
}

std::int64_t version_of(const File& file) {
  const hdf5::Attribute version = file.attribute("schema_version");
  const auto* number = std::get_if<std::int64_t>(&version);
  return number == nullptr ? 0 : *number;
}

bool is(const Case& c, std::string_view factor, std::string_view text) {
  return c.has(factor) && c.at(factor) == Value(std::string(text));
}

// Version 1 recorded what did not apply to a case as none, no or 0, and bf16x3 as near.
Case of_version_1(const Case& old) {
  const bool exchanges = !is(old, "sync", "none");
  const bool has_buckets = !old.has("sync") || is(old, "sync", "bucketed");
  const bool has_placements = is(old, "op", "all_reduce") || is(old, "op", "reduce_scatter") ||
                              is(old, "op", "all_gather") || is(old, "op", "reduce");
  Case factors;
  for (const auto& [name, value] : old.factors()) {
    const bool of_exchange = name == "comm_dtype" || name == "registration" || name == "verify";
    const bool left_out = (name == "bucket_mb" && !has_buckets) ||
                          (old.has("sync") && of_exchange && !exchanges) ||
                          (name == "recompute" && is(old, "mode", "inference")) ||
                          (name == "redop" && is(old, "redop", "none")) ||
                          (name == "in_place" && old.has("op") && !has_placements) ||
                          (name == "fp32_attention" && is(old, "precision", "tf32"));
    if (left_out) continue;
    const bool near = name == "fp32_attention" && is(old, name, "near");
    factors.set(name, near ? Value(std::string("bf16x3")) : value);
  }
  return factors;
}

}  // namespace

File case_file(const CaseRecord& record, const RunInfo& run) {
  File file = File::in_memory();
  const std::string created = utc_now();
  write_root(file, run, created);
  write_ranks(file.make_group("ranks"), run.ranks);
  write_case(file.make_group("cases/" + record.id), record, created);
  write_columns(file.make_group("summary"), summary_row(record));
  return file;
}

File merged_file(const std::vector<std::filesystem::path>& files, bool complete,
                 const std::vector<Table>& tables) {
  File merged = File::in_memory();
  const Group cases = merged.make_group("cases");
  std::vector<std::vector<Column>> summaries;
  // When a file was made; among those of one second, when it was last written.
  std::pair<std::string, std::filesystem::file_time_type> newest_age;
  const std::filesystem::path* newest = nullptr;
  for (const std::filesystem::path& path : files) {
    const File file = open_result_file(path);
    summaries.push_back(reading(path, [&] {
      const Group from = file.group("cases");
      for (const std::string& id : from.names()) cases.copy_from(from, id);
      return read_columns(file.group("summary"));
    }));
    const std::pair age(file.text_attribute("created"), std::filesystem::last_write_time(path));
    if (newest == nullptr || age > newest_age) {
      newest = &path;
      newest_age = age;
    }
  }
  if (newest == nullptr) throw InternalError("there is no file to merge");
  write_columns(merged.make_group("summary"), concatenate(summaries));
  for (const Table& table : tables) write_columns(merged.make_group(table.path), table.columns);
  reading(*newest, [&] { copy_run(open_result_file(*newest), merged); });
  merged.set_attribute("complete", complete);
  return merged;
}

File extracted_case(const File& from, const std::vector<Column>& summary, const std::string& id) {
  const Column* names = find_column(summary, "case");
  const auto* ids =
      names == nullptr ? nullptr : std::get_if<std::vector<std::string>>(&names->data);
  if (ids == nullptr) throw Hdf5Error("the summary does not name its cases");
  const auto found = std::find(ids->begin(), ids->end(), id);
  if (found == ids->end()) throw Hdf5Error(fmt::format("the summary lacks case '{}'", id));

  std::vector<Column> row;
  for (const Column& column : summary) {
    row.push_back(row_of(column, static_cast<std::size_t>(found - ids->begin())));
  }
  File file = File::in_memory();
  copy_run(from, file);
  file.set_attribute("complete", false);
  file.make_group("cases").copy_from(from.group("cases"), id);
  write_columns(file.make_group("summary"), row);
  return file;
}

File open_result_file(const std::filesystem::path& path) {
  return reading(path, [&] {
    File file = File::open(path);
    if (file.text_attribute("schema") != "paceline") {
      throw UsageError(fmt::format("{} is not a file of paceline's results", path.string()));
    }
    const std::int64_t version = version_of(file);
    if (version < oldest_schema_version || version > schema_version) {
      throw UsageError(fmt::format("{} is of schema version {}; this reads {} and {}",
                                   path.string(), version, oldest_schema_version, schema_version));
    }
    return file;
  });
}

void refuse_older_schema(const std::filesystem::path& path) {
  std::int64_t version = schema_version;
  try {
    version = version_of(open_result_file(path));
  } catch (const UsageError&) {
    return;
  }
  if (version == schema_version) return;
  throw UsageError(
      fmt::format("{} is of schema version {}, of an older paceline: cases of version {} cannot "
                  "stand beside its own; name another --output",
                  path.string(), version, schema_version));
}

Case read_factors(const File& file, const std::string& id) {
  const Group group = file.group("cases").group(id);
  Case factors;
  for (const std::string& name : group.attribute_names()) {
    const bool factor =
        std::find(run_attributes.begin(), run_attributes.end(), name) == run_attributes.end();
    if (factor) factors.set(name, group.attribute(name));
  }
  return version_of(file) == 1 ? of_version_1(factors) : factors;
}

std::vector<Column> read_columns(const Group& group) {
  std::vector<Column> columns;
  for (const std::string& name : group.names()) columns.push_back(read_column(group, name));
  return columns;
}

}  // namespace paceline
