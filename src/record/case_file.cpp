#include "record/case_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

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

void write_columns(const Group& group, const std::vector<Column>& columns) {
  for (const Column& column : columns) {
    if (length_of(column) != length_of(columns.front())) {
      throw InternalError(fmt::format("column '{}' has another length than '{}'", column.name,
                                      columns.front().name));
    }
    const hdf5::Dataset dataset =
        std::visit([&](const auto& data) { return group.write(column.name, data); }, column.data);
    if (!column.unit.empty()) dataset.set_attribute("unit", column.unit);
  }
}

void write_row(const Group& group, const Row& row) {
  TableRows table("summary");
  table.add(row);
  write_columns(group, table.take().columns);
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
  TableRows rows("ranks");
  for (const RankInfo& r : ranks) {
    rows.add({{"rank", std::int64_t{r.rank}},
              {"host", r.host},
              {"local_rank", std::int64_t{r.local_rank}},
              {"cpu", r.cpu},
              {"device_kind", std::string(name_of(r.device.kind))},
              {"device", r.device.name},
              {"gpu_uuid", r.device.uuid},
              {"pci_bus_id", r.device.pci_bus_id},
              {"threads", std::int64_t{r.device.threads}},
              {"memory_bytes", static_cast<std::int64_t>(r.device.memory_bytes), "bytes"}});
  }
  write_columns(group, rows.take().columns);
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
  for (const auto& [name, value] : slurm_job()) group.set_attribute(name, value);

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

// Everything of a file but its cases and their summary.
void copy_run(const File& from, const File& to) {
  for (const std::string& name : from.attribute_names()) {
    to.set_attribute(name, from.attribute(name));
  }
  to.copy_from(from, "environment");
  to.copy_from(from, "ranks");
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
  const bool alone = is(old, "sync", "none");
  const bool has_buckets = !old.has("sync") || is(old, "sync", "bucketed");
  const bool has_placements = !old.has("op") || is(old, "op", "all_reduce") ||
                              is(old, "op", "reduce_scatter") || is(old, "op", "all_gather") ||
                              is(old, "op", "reduce");
  const std::map<std::string_view, bool> left_out = {
      {"bucket_mb", !has_buckets},
      {"comm_dtype", alone},
      {"registration", alone},
      {"verify", alone},
      {"recompute", is(old, "mode", "inference")},
      {"redop", is(old, "redop", "none")},
      {"in_place", !has_placements},
      {"fp32_attention", is(old, "precision", "tf32")}};
  Case factors;
  for (const auto& [name, value] : old.factors()) {
    const auto it = left_out.find(name);
    if (it == left_out.end() || !it->second) factors.set(name, value);
  }
  if (is(factors, "fp32_attention", "near")) factors.set("fp32_attention", std::string("bf16x3"));
  return factors;
}

}  // namespace

File case_file(const CaseRecord& record, const RunInfo& run) {
  File file = File::in_memory();
  const std::string created = utc_now();
  write_root(file, run, created);
  write_ranks(file.make_group("ranks"), run.ranks);
  write_case(file.make_group("cases/" + record.id), record, created);
  write_row(file.make_group("summary"), summary_row(record));
  return file;
}

File merged_file(const std::vector<std::filesystem::path>& files, bool complete,
                 const std::vector<Table>& tables) {
  File merged = File::in_memory();
  const Group cases = merged.make_group("cases");
  std::vector<std::vector<Column>> summaries;
  // By when a file was made; among those of one second, when it was last written.
  std::map<std::pair<std::string, std::filesystem::file_time_type>, std::filesystem::path> by_age;
  for (const std::filesystem::path& path : files) {
    const File file = open_result_file(path);
    summaries.push_back(reading(path, [&] {
      const Group from = file.group("cases");
      for (const std::string& id : from.names()) cases.copy_from(from, id);
      return read_columns(file.group("summary"));
    }));
    by_age.try_emplace({file.text_attribute("created"), std::filesystem::last_write_time(path)},
                       path);
  }
  if (by_age.empty()) throw InternalError("there is no file to merge");
  write_columns(merged.make_group("summary"), concatenate(summaries));
  for (const Table& table : tables) write_columns(merged.make_group(table.path), table.columns);
  const std::filesystem::path& newest = by_age.rbegin()->second;
  reading(newest, [&] { copy_run(open_result_file(newest), merged); });
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

  File file = File::in_memory();
  copy_run(from, file);
  file.set_attribute("complete", false);
  file.make_group("cases").copy_from(from.group("cases"), id);
  write_row(file.make_group("summary"),
            row_of(summary, static_cast<std::size_t>(found - ids->begin())));
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
    if (std::count(run_attributes.begin(), run_attributes.end(), name) > 0) continue;
    factors.set(name, group.attribute(name));
  }
  return version_of(file) == 1 ? of_version_1(factors) : factors;
}

std::vector<Column> read_columns(const Group& group) {
  std::vector<Column> columns;
  for (const std::string& name : group.names()) {
    const hdf5::Dataset dataset = group.dataset(name);
    Column& column = columns.emplace_back(Column{name, dataset.text_attribute("unit"), {}});
    switch (dataset.type_class()) {
      case H5T_INTEGER: column.data = dataset.read<std::int64_t>(); break;
      case H5T_FLOAT: column.data = dataset.read<double>(); break;
      case H5T_STRING: column.data = dataset.read<std::string>(); break;
      default: throw Hdf5Error(fmt::format("column '{}' is neither numbers nor text", name));
    }
  }
  return columns;
}

}  // namespace paceline
