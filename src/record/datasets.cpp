#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "core/error.h"
#include "record/case_file.h"
#include "record/descriptions.h"

namespace paceline {

using hdf5::Dims;
using hdf5::Group;

namespace {

// `group`: its name in the descriptions.
void describe_dataset(const hdf5::Dataset& dataset, std::string_view group,
                      const std::string& name) {
  const Description* description = find_description(group, name);
  if (description == nullptr) return;
  dataset.set_attribute("unit", std::string(description->unit));
  dataset.set_attribute("description", text_of(*description, name));
}

// 0, 1, ... as the scale of a dimension.
hdf5::Dataset make_scale(const Group& group, const std::string& name, std::size_t length) {
  std::vector<std::int64_t> places(length);
  std::iota(places.begin(), places.end(), 0);
  hdf5::Dataset scale = group.write(name, places);
  describe_dataset(scale, "cases/<id>", name);
  return scale;
}

// samples[rank][repetition] as one dataset.
void write_phase(const Group& group, const std::string& phase,
                 const std::vector<std::vector<double>>& samples) {
  const std::size_t repetitions = samples.empty() ? 0 : samples.front().size();
  std::vector<double> flat;
  for (const std::vector<double>& rank : samples) {
    if (rank.size() != repetitions) throw InternalError("ranks have different counts of samples");
    flat.insert(flat.end(), rank.begin(), rank.end());
  }
  const Dims dims = {samples.size(), repetitions};
  describe_dataset(group.write(phase, std::span<const double>(flat), dims), "samples", phase);
}

}  // namespace

Group make_described_group(const Group& parent, const std::string& path) {
  Group group = parent.make_group(path);
  const Description* description = find_description(path, "");
  if (description != nullptr) group.set_attribute("description", std::string(description->text));
  return group;
}

void write_table(const Group& parent, Table table) {
  std::vector<Column>& columns = table.columns;
  const Group group = make_described_group(parent, table.path);
  describe(table.path, {}, columns);
  for (const Column& column : columns) {
    if (length_of(column) != length_of(columns.front())) {
      throw InternalError(fmt::format("column '{}' has another length than '{}'", column.name,
                                      columns.front().name));
    }
    const hdf5::Dataset dataset =
        std::visit([&](const auto& data) { return group.write(column.name, data); }, column.data);
    const bool is_text = std::holds_alternative<std::vector<std::string>>(column.data);
    const std::string without_unit = is_text ? "text" : "1";
    dataset.set_attribute("unit", column.unit.empty() ? without_unit : column.unit);
    if (!column.description.empty()) dataset.set_attribute("description", column.description);
  }
}

std::vector<Column> read_columns(const Group& parent, const std::string& path) {
  const Group group = parent.group(path);
  std::vector<Column> columns;
  for (const std::string& name : group.names()) {
    const hdf5::Dataset dataset = group.dataset(name);
    if (dataset.dims().size() != 1) throw Hdf5Error(fmt::format("'{}' is not a column", name));
    Column& column = columns.emplace_back(Column{name, dataset.text_attribute("unit"), {}});
    column.description = dataset.text_attribute("description");
    if (column.unit == "1" || column.unit == "text") column.unit.clear();
    switch (dataset.type_class()) {
      case H5T_INTEGER: column.data = dataset.read<std::int64_t>(); break;
      case H5T_FLOAT: column.data = dataset.read<double>(); break;
      case H5T_STRING: column.data = dataset.read<std::string>(); break;
      default: throw Hdf5Error(fmt::format("column '{}' is neither numbers nor text", name));
    }
    if (length_of(column) != length_of(columns.front())) {
      throw Hdf5Error(fmt::format("the columns of /{} differ in length", path));
    }
  }
  return columns;
}

void attach_scales(const Group& group) {
  if (!group.has("rank")) return;
  const hdf5::Dataset rank = group.dataset("rank");
  rank.remove_scales();
  for (const auto& [samples, scale] :
       {std::pair{"samples", "repetition"}, std::pair{"samples_warmup", "warmup_repetition"}}) {
    const hdf5::Dataset repetition = group.dataset(scale);
    repetition.remove_scales();
    const Group phases = group.group(samples);
    for (const std::string& phase : phases.names()) {
      const hdf5::Dataset dataset = phases.dataset(phase);
      dataset.remove_scales();
      dataset.attach_scale(0, "rank", rank);
      dataset.attach_scale(1, "repetition", repetition);
    }
  }
}

void write_samples(const Group& group, const std::vector<PhaseSamples>& phases) {
  const Group measured = make_described_group(group, "samples");
  const Group warmup = make_described_group(group, "samples_warmup");
  for (const PhaseSamples& samples : phases) {
    write_phase(measured, samples.phase, samples.measured);
    write_phase(warmup, samples.phase, samples.warmup);
  }
  measured.set_attribute("headline", phases.back().phase);
  const Dims of_measured = measured.dataset(phases.back().phase).dims();
  (void)make_scale(group, "rank", of_measured.front());
  (void)make_scale(group, "repetition", of_measured.back());
  (void)make_scale(group, "warmup_repetition", warmup.dataset(phases.back().phase).dims().back());
  attach_scales(group);
}

}  // namespace paceline
