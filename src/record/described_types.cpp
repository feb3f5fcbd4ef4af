#include "record/described_types.h"

#include <fmt/format.h>

#include <set>
#include <string>
#include <variant>

#include "record/descriptions.h"

namespace paceline {

namespace {

using hdf5::Group;

void require(bool is_text, bool expected_text, std::string_view kind, const std::string& name,
             const std::string& place) {
  if (is_text == expected_text) return;
  throw Hdf5Error(fmt::format("{} '{}' of {} is {}, not {}", kind, name, place,
                              is_text ? "text" : "a number", expected_text ? "text" : "a number"));
}

bool is_text(const hdf5::Dataset& dataset) { return dataset.type_class() == H5T_STRING; }

// The attributes of a group. `described`: the group's name in the descriptions.
void check_attributes(const Group& group, std::string_view described, const std::string& place) {
  for (const std::string& name : group.attribute_names()) {
    const Description* d = find_description(fmt::format("{} attributes", described), name);
    if (d == nullptr) continue;
    const bool text = std::holds_alternative<std::string>(group.attribute(name));
    require(text, d->unit == "text", "attribute", name, place);
  }
}

// The columns of a group and of the groups in it.
void check_columns(const Group& group, const std::string& described, const std::string& place) {
  std::set<hdf5::Dims> lengths;
  for (const std::string& name : group.names()) {
    if (group.is_group(name)) {
      check_columns(group.group(name), described + "/" + name, place + "/" + name);
    } else if (const Description* d = find_description(described, name)) {
      const hdf5::Dataset column = group.dataset(name);
      require(is_text(column), d->unit == "text", "column", name, place);
      if (column.dims().size() == 1) lengths.insert(column.dims());
    }
  }
  if (lengths.size() > 1) {
    throw Hdf5Error(fmt::format("the columns of {} differ in length", place));
  }
}

// The factors of a case, which have no description here, against their columns.
void check_factors(const Group& one, const Group& summary, const std::string& place) {
  for (const std::string& name : one.attribute_names()) {
    if (find_description("cases/<id> attributes", name) != nullptr || !summary.has(name)) continue;
    const bool text = std::holds_alternative<std::string>(one.attribute(name));
    require(text, is_text(summary.dataset(name)), "attribute", name, place);
  }
}

}  // namespace

void require_described_types(const hdf5::File& file) {
  check_attributes(file, "/", "/");
  const Group summary = file.group("summary");
  for (const std::string& name : file.names()) {
    if (!file.is_group(name)) continue;
    const Group group = file.group(name);
    if (name == "cases") {
      for (const std::string& id : group.names()) {
        const std::string place = "/cases/" + id;
        const Group one = group.group(id);
        check_attributes(one, "cases/<id>", place);
        check_factors(one, summary, place);
        for (const std::string& table : one.names()) {
          if (one.is_group(table)) check_columns(one.group(table), table, place + "/" + table);
        }
      }
    } else if (name == "runs") {
      for (const std::string& run : group.names()) {
        const std::string place = "/runs/" + run;
        const Group one = group.group(run);
        check_attributes(one, "runs/<run>", place);
        check_attributes(one.group("environment"), "environment", place + "/environment");
        check_columns(one.group("ranks"), "ranks", place + "/ranks");
      }
    } else {
      check_columns(group, name, "/" + name);
    }
  }
}

}  // namespace paceline
