#include "record/case_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/error.h"
#include "record/datasets.h"
#include "record/descriptions.h"

namespace paceline {

namespace {

using hdf5::File;
using hdf5::Group;

constexpr std::int64_t schema_version = 2;

// Attributes of /cases/<id> other than factors.
bool is_of_run(const std::string& attribute) {
  return find_description("cases/<id> attributes", attribute) != nullptr;
}

Table summary_of(const Row& row, const std::vector<FactorNote>& factors) {
  TableRows rows("summary");
  rows.add(row);
  Table table = rows.take();
  describe(table.path, factors, table.columns);
  return table;
}

Table ranks_table(const std::vector<RankInfo>& ranks) {
  const bool gpus =
      std::any_of(ranks.begin(), ranks.end(), [](const auto& r) { return !r.device.uuid.empty(); });
  TableRows rows("ranks");
  for (const RankInfo& r : ranks) {
    Row row = {{"rank", std::int64_t{r.rank}},
               {"host", r.host},
               {"local_rank", std::int64_t{r.local_rank}},
               {"cpu", r.cpu},
               {"cores", r.cores},
               {"device_kind", std::string(name_of(r.device.kind))},
               {"device", r.device.name},
               {"threads", std::int64_t{r.device.threads}},
               {"memory_bytes", static_cast<std::int64_t>(r.device.memory_bytes)}};
    if (gpus) {
      row.push_back({"gpu_uuid", r.device.uuid});
      row.push_back({"pci_bus_id", r.device.pci_bus_id});
    }
    rows.add(row);
  }
  return rows.take();
}

void write_run(const Group& runs, const RunInfo& info) {
  const Group run = runs.make_group(info.id());
  run.set_attribute("command", info.command);
  run.set_attribute("started", info.started);
  run.set_attribute("software_version", software_version());
  const Group environment = make_described_group(run, "environment");
  for (const auto& [name, value] : info.environment) environment.set_attribute(name, value);
  write_table(run, ranks_table(info.ranks));
}

// Copies the description of this run from /runs/<run> to the root.
void show_run(const File& file, const std::string& run) {
  const Group group = file.group("runs/" + run);
  for (const std::string& name : group.attribute_names()) {
    file.set_attribute(name, group.attribute(name));
  }
  file.set_attribute("run", run);
  for (const std::string part : {"environment", "ranks"}) {
    file.link(fmt::format("runs/{}/{}", run, part), part);
  }
}

std::string run_of_case(const File& file, const std::string& id) {
  const std::string run = file.group("cases").group(id).text_attribute("run");
  return run.empty() ? newest_run(file) : run;
}

void copy_run(const File& from, const std::string& run, const File& to) {
  const Group runs = to.make_group("runs");
  if (runs.has(run)) return;
  if (from.has("runs")) {
    runs.copy_from(from.group("runs"), run);
    return;
  }
  const Group copy = runs.make_group(run);
  copy.set_attribute("command", from.attribute("command"));
  copy.set_attribute("started", from.attribute("created"));
  copy.set_attribute("software_version", from.attribute("software_version"));
  copy.copy_from(from, "environment");
  copy.copy_from(from, "ranks");
}

// Copies the root's attributes, with those of `run` in place of the newest run's.
void copy_root(const File& from, const File& to, const std::string& run) {
  for (const std::string& name : from.attribute_names()) {
    to.set_attribute(name, from.attribute(name));
  }
  show_run(to, run);
}

// Adds to a summary the column "run": the run that measured each row.
std::vector<Column> with_runs(std::vector<Column> summary, std::vector<std::string> runs) {
  if (summary.empty() || length_of(summary.front()) != runs.size()) {
    throw Hdf5Error("the summary does not have one row per case");
  }
  if (find_column(summary, "run") == nullptr) {
    summary.insert(summary.begin() + 1, {"run", "", std::move(runs)});
  }
  return summary;
}

// Copies a case of `from`, which was measured by `run`.
void copy_case(const File& from, const std::string& id, const std::string& run, const File& to) {
  const Group cases = to.make_group("cases");
  cases.copy_from(from.group("cases"), id);
  cases.group(id).set_attribute("run", run);
  attach_scales(cases.group(id));
}

void write_case(const Group& group, const CaseRecord& record, const std::string& created,
                const std::string& run) {
  for (const auto& [name, value] : record.factors.factors()) group.set_attribute(name, value);
  group.set_attribute("status", std::string(name_of(record.status)));
  for (const auto& [name, text] :
       {std::pair{"reason", record.reason}, std::pair{"warmup_reason", record.warmup_reason},
        std::pair{"stop_reason", record.stop_reason},
        std::pair{"warnings", warnings_text(record.warnings)}}) {
    if (!text.empty()) group.set_attribute(name, text);
  }
  group.set_attribute("created", created);
  group.set_attribute("run", run);
  for (const auto& [name, value] : slurm_job()) group.set_attribute(name, value);
  if (!record.samples.empty()) write_samples(group, record.samples);
  for (const Table& table : record.tables) write_table(group, table);
}

std::int64_t version_of(const File& file) {
  const hdf5::Attribute version = file.attribute("schema_version");
  const auto* number = std::get_if<std::int64_t>(&version);
  return number == nullptr ? 0 : *number;
}

}  // namespace

// The first files had no /runs: their run is named by the time of creation.
std::string newest_run(const File& file) {
  if (file.has_attribute("run")) return file.text_attribute("run");
  RunInfo run;
  run.started = file.text_attribute("created");
  return run.id();
}

std::vector<std::string> case_names(const File& file) {
  std::vector<std::string> names = file.group("cases").names();
  for (const std::string& name : names) {
    if (!is_case_id(name)) throw Hdf5Error(fmt::format("'{}' is not the name of a case", name));
  }
  return names;
}

Row summary_row(const CaseRecord& record, const RunInfo& run) {
  Row row = summary_row(record);
  row.insert(row.begin() + 1, {"run", run.id()});
  return row;
}

File case_file(const CaseRecord& record, const RunInfo& run) {
  File file = File::in_memory();
  const std::string created = utc_now();
  file.set_attribute("schema", std::string("paceline"));
  file.set_attribute("schema_version", schema_version);
  file.set_attribute("software", std::string("paceline"));
  file.set_attribute("created", created);
  file.set_attribute("experiment", run.experiment);
  file.set_attribute("complete", false);
  write_run(file.make_group("runs"), run);
  show_run(file, run.id());
  write_case(file.make_group("cases/" + record.id), record, created, run.id());
  write_table(file, summary_of(summary_row(record, run), record.factor_notes));
  return file;
}

File merged_file(const std::vector<std::filesystem::path>& files, bool complete,
                 const std::vector<Table>& tables) {
  if (files.empty()) throw InternalError("there is no file to merge");
  File merged = File::in_memory();
  std::vector<std::vector<Column>> summaries;
  // Ordered by run, then by when the case was finished.
  std::map<std::pair<std::string, std::string>, std::filesystem::path> by_age;
  for (const std::filesystem::path& path : files) {
    const File file = open_result_file(path);
    reading(path, [&] {
      std::vector<std::string> runs;
      for (const std::string& id : case_names(file)) {
        runs.push_back(run_of_case(file, id));
        copy_run(file, runs.back(), merged);
        copy_case(file, id, runs.back(), merged);
      }
      summaries.push_back(with_runs(read_columns(file.group("summary")), std::move(runs)));
      by_age.insert_or_assign({newest_run(file), file.text_attribute("created")}, path);
    });
  }
  write_table(merged, {"summary", concatenate(summaries)});
  for (const Table& table : tables) write_table(merged, table);
  const std::string& run = by_age.rbegin()->first.first;
  const std::filesystem::path& newest = by_age.rbegin()->second;
  reading(newest, [&] { copy_root(open_result_file(newest), merged, run); });
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

  const std::string run = run_of_case(from, id);
  File file = File::in_memory();
  copy_run(from, run, file);
  copy_root(from, file, run);
  file.set_attribute("complete", false);
  copy_case(from, id, run, file);
  const auto place = found - ids->begin();
  std::vector<Column> row;
  for (const Column& column : summary) {
    Column& one = row.emplace_back(column);
    std::visit([&](auto& data) { data = {std::as_const(data).at(place)}; }, one.data);
  }
  write_table(file, {"summary", with_runs(std::move(row), {run})});
  return file;
}

File open_result_file(const std::filesystem::path& path) {
  return reading(path, [&] {
    File file = File::open(path);
    if (file.text_attribute("schema") != "paceline") {
      throw UsageError(fmt::format("{} is not a paceline result file", path.string()));
    }
    const std::int64_t version = version_of(file);
    if (version != schema_version) {
      throw UsageError(fmt::format(
          "{} has schema version {}; this program reads {} alone, paceline-analysis older "
          "ones too",
          path.string(), version, schema_version));
    }
    return file;
  });
}

std::vector<Column> read_summary(const std::filesystem::path& path) {
  const File file = open_result_file(path);
  std::vector<Column> columns = reading(path, [&] { return read_columns(file.group("summary")); });
  if (columns.empty()) throw UsageError(fmt::format("{}: /summary is empty", path.string()));
  reading(path, [&] { require_equal_lengths(columns, "summary"); });
  return columns;
}

void require_equal_lengths(const std::vector<Column>& columns, const std::string& table) {
  for (const Column& column : columns) {
    if (length_of(column) != length_of(columns.front())) {
      throw Hdf5Error(fmt::format("the columns of /{} differ in length", table));
    }
  }
}

std::string experiment_of(const std::filesystem::path& path) {
  return reading(path, [&] { return open_result_file(path).text_attribute("experiment"); });
}

Case read_factors(const File& file, const std::string& id) {
  const Group group = file.group("cases").group(id);
  Case factors;
  for (const std::string& name : group.attribute_names()) {
    if (is_of_run(name)) continue;
    factors.set(name, group.attribute(name));
  }
  return factors;
}

}  // namespace paceline
