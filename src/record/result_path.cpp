#include "record/result_path.h"

#include <fmt/format.h>

#include <climits>
#include <cstddef>
#include <string_view>
#include <system_error>

#include "core/error.h"
#include "record/whole_file.h"

namespace paceline {

namespace fs = std::filesystem;

fs::path result_path(const fs::path& path, std::string_view command) {
  if (path.extension() != ".h5") {
    throw UsageError(fmt::format("{} {}: the name must end in .h5", command, path.string()));
  }
  std::error_code unknown;
  const fs::file_status status = fs::status(path, unknown);
  if (fs::is_directory(status)) {
    throw UsageError(fmt::format("{} {} is a folder: name a file, such as {}", command,
                                 path.string(), (path / "results.h5").string()));
  }
  if (status.type() != fs::file_type::not_found && !fs::is_regular_file(status)) {
    throw UsageError(fmt::format("{} {}: {}; name another file", command, path.string(),
                                 unknown ? unknown.message() : "is a device or a pipe"));
  }
  fs::path target = target_of(path);
  // The cases' files are in a folder beside it.
  constexpr std::size_t most = PATH_MAX - NAME_MAX - std::string_view(".cases/").size();
  if (target.native().size() >= most) {
    throw UsageError(fmt::format("{} has {} characters with its folders; use fewer than {}",
                                 command, target.native().size(), most));
  }
  return target;
}

fs::path cases_folder(const fs::path& output) { return target_of(output).string() + ".cases"; }

}  // namespace paceline
