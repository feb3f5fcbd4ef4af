#include "record/case_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "record/descriptions.h"

namespace paceline {

namespace {

using hdf5::File;
using hdf5::Group;

constexpr std::int64_t schema_version = 2;

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

void write_root(const File& file, const std::string& experiment, const std::string& created,
                bool complete) {
  file.set_attribute("schema", std::string("paceline"));
  file.set_attribute("schema_version", schema_version);
  file.set_attribute("software", std::string("paceline"));
  file.set_attribute("created", created);
  file.set_attribute("experiment", experiment);
  file.set_attribute("complete", complete);
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

// The place of a case in the file's summary.
std::size_t place_of(const std::vector<Column>& summary, const std::string& id) {
  const Column* names = find_column(summary, "case");
  const auto* ids =
      names == nullptr ? nullptr : std::get_if<std::vector<std::string>>(&names->data);
  if (ids == nullptr) throw Hdf5Error("the summary does not name its cases");
  const auto found = std::find(ids->begin(), ids->end(), id);
  if (found == ids->end()) throw Hdf5Error(fmt::format("the summary lacks case '{}'", id));
  return static_cast<std::size_t>(found - ids->begin());
}

// The texts and integers of each row of a fit, which say what was fitted.
std::vector<std::string> keys_of(const std::vector<Column>& columns) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; !columns.empty() && i < length_of(columns.front()); ++i) {
    Row row = row_of(columns, i);
    std::erase_if(row, [](const Cell& cell) { return std::holds_alternative<double>(cell.value); });
    keys.push_back(json_line(row));
  }
  return keys;
}

// Those rows of an earlier fit that `columns` do not replace, followed by `columns`.
std::vector<Column> with_rows(const std::vector<Column>& earlier, std::vector<Column> columns) {
  const std::vector<std::string> replaced = keys_of(columns);
  const std::vector<std::string> keys = keys_of(earlier);
  std::vector<std::vector<Column>> rows;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (std::ranges::find(replaced, keys[i]) == replaced.end()) {
      rows.push_back(row_alone(earlier, i));
    }
  }
  if (!columns.empty()) rows.push_back(std::move(columns));
  return concatenate(rows);
}

}  // namespace

std::vector<std::string> case_names(const File& file) {
  std::vector<std::string> names = file.group("cases").names();
  for (const std::string& name : names) {
    if (!is_case_id(name)) throw Hdf5Error(fmt::format("'{}' is not the name of a case", name));
  }
  return names;
}

File case_file(const CaseRecord& record, const RunInfo& run) {
  File file = File::in_memory();
  const std::string created = utc_now();
  write_root(file, run.experiment, created, false);
  write_run(file.make_group("runs"), run);
  show_run(file, run.id());
  write_case(file.make_group("cases/" + record.id), record, created, run.id());
  TableRows summary("summary");
  summary.add(summary_row(record, run.id()));
  Table table = summary.take();
  describe(table.path, record.factor_notes, table.columns);
  write_table(file, std::move(table));
  return file;
}

void MergedFile::add(const File& from, const std::vector<Column>& summary, const std::string& id) {
  const Group cases = file_.make_group("cases");
  cases.copy_from(from.group("cases"), id);
  const Group copy = cases.group(id);
  attach_scales(copy);
  const std::string run = copy.text_attribute("run");
  const Group runs = file_.make_group("runs");
  if (!runs.has(run)) runs.copy_from(from.group("runs"), run);
  experiment_ = from.text_attribute("experiment");
  newest_ = std::max(newest_, {run, copy.text_attribute("created")});
  rows_.push_back(row_alone(summary, place_of(summary, id)));
}

File MergedFile::finish(bool complete, const std::vector<Table>& tables) {
  write_table(file_, {"summary", concatenate(rows_)});
  for (const Table& table : tables) write_table(file_, table);
  write_root(file_, experiment_, newest_.second, complete);
  show_run(file_, newest_.first);
  return std::move(file_);
}

void require_schema(const File& file) {
  if (file.text_attribute("schema") != "paceline") throw Hdf5Error("it is not a result file");
  if (file.attribute("schema_version") == hdf5::Attribute(schema_version) && file.has("runs")) {
    return;
  }
  throw Hdf5Error("it is from another version of paceline; move it away");
}

void require_mergeable(const File& file, const std::vector<Column>& summary,
                       const std::string& id) {
  (void)place_of(summary, id);
  const std::string run = file.group("cases").group(id).text_attribute("run");
  const Group runs = file.group("runs");
  if (runs.has(run) && runs.has(run + "/environment") && runs.has(run + "/ranks")) return;
  throw Hdf5Error(fmt::format("run '{}' is missing", run));
}

std::vector<Column> read_summary(const File& file) {
  std::vector<Column> columns = read_columns(file, "summary");
  if (columns.empty()) throw Hdf5Error("/summary is empty");
  return columns;
}

std::vector<Table> read_fits(const File& file) {
  std::vector<Table> fits;
  for (const char* table : {"fit", "fit_residuals"}) {
    if (file.has(table)) fits.push_back({table, read_columns(file, table)});
  }
  return fits;
}

std::vector<Table> with_earlier(std::vector<Table> tables, const std::vector<Table>& fits) {
  for (const Table& earlier : fits) {
    auto table = std::ranges::find(tables, earlier.path, &Table::path);
    if (table == tables.end()) table = tables.insert(tables.end(), {earlier.path, {}});
    table->columns = with_rows(earlier.columns, std::move(table->columns));
  }
  return tables;
}

Row row_of_case(const File& file, const std::vector<Column>& summary, const std::string& id) {
  Row row = row_of(summary, place_of(summary, id));
  const Group group = file.group("cases").group(id);
  for (Cell& cell : row) {
    // Attributes that are described are of the run; the others are factors.
    if (find_description("cases/<id> attributes", cell.name) == nullptr &&
        group.has_attribute(cell.name)) {
      cell.value = group.attribute(cell.name);
    }
  }
  return row;
}

}  // namespace paceline
