#include "record/split_file.h"

#include <fmt/format.h>

#include "record/case_file.h"
#include "record/described_types.h"
#include "record/fits.h"
#include "record/whole_file.h"

namespace paceline {

namespace fs = std::filesystem;

namespace {

void write(const fs::path& target, const hdf5::File& file) {
  if (const auto error = write_whole(target, target, file.image())) {
    throw StoppedError(
        fmt::format("cannot write {}: {}; make room there", target.string(), error.message()));
  }
}

}  // namespace

fs::path part_of(const fs::path& before, const std::string& id) {
  return before.string() + id + ".tmp";
}

std::vector<std::string> split(const fs::path& path, const fs::path& before) {
  const hdf5::File file = open_result_file(path);
  const std::vector<Column> summary = read_summary(path);
  std::vector<std::string> ids = reading(path, [&] {
    require_described_types(file);
    return case_names(file);
  });
  for (const std::string& id : ids) {
    const hdf5::File one = reading(path, [&] { return extracted_case(file, summary, id); });
    write(part_of(before, id), one);
  }
  const hdf5::File fits = hdf5::File::in_memory();
  reading(path, [&] {
    for (const char* table : fitted_tables) {
      if (file.has(table)) fits.copy_from(file, table);
    }
    fits.set_attribute("run", newest_run(file));
  });
  write(part_of(before, ""), fits);
  return ids;
}

}  // namespace paceline
