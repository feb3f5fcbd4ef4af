#include "record/untrusted_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/non_copyable.h"
#include "core/screen.h"
#include "core/units.h"
#include "record/case_file.h"
#include "record/hdf5.h"
#include "record/split_file.h"
#include "record/whole_file.h"

namespace paceline {

namespace {

enum Verdict : int {
  readable = 0,
  links_to_other_files = 10,
  too_large = 11,
  nests_too_deep = 12,
  damaged = 13,
  // Only from splitting; the child also prints a message.
  refused = 14,
  unwritable = 15
};

// Contiguous numbers need not be read: HDF5 only copies them, and weights have gigabytes of them.
bool needs_reading(const hdf5::Dataset& dataset) {
  return dataset.type_class() == H5T_STRING || dataset.layout() != H5D_CONTIGUOUS;
}

// No HDF5 filter compresses better than deflate.
void require_fitting(const hdf5::Dataset& dataset, std::uintmax_t file_size) {
  constexpr std::uintmax_t best_ratio = 1032;
  if (dataset.size() > best_ratio * file_size / std::max<std::size_t>(1, dataset.element_size()))
    throw too_large;
}

// Runs work() and ignores its errors: the later reader gets the same ones and reports them.
template <class F>
void ignoring_errors(const F& work) {
  try {
    work();
  } catch (const Hdf5Error&) {
  } catch (const UsageError&) {
  }
}

// Returns work(), which lists members. If that fails, the verdict is `damaged`, because HDF5 leaves
// its memory in a bad state.
template <class F>
auto or_damaged(const F& work) {
  try {
    return work();
  } catch (const Hdf5Error&) {
    throw damaged;
  }
}

void read_attributes(const hdf5::Object& object) {
  ignoring_errors(
      [&] { (void)object.has_attribute("unit"); });  // crashes on other damage than a listing
  for (const std::string& name : or_damaged([&] { return object.attribute_names(); })) {
    ignoring_errors([&] { (void)object.attribute(name); });
  }
}

void read_dataset(const hdf5::Dataset& dataset, std::uintmax_t file_size) {
  read_attributes(dataset);
  if (dataset.is_in_other_files()) throw links_to_other_files;
  require_fitting(dataset, file_size);
  if (!needs_reading(dataset)) return;
  switch (dataset.type_class()) {
    case H5T_STRING: (void)dataset.read<std::string>(); break;
    case H5T_INTEGER:
    case H5T_FLOAT: (void)dataset.read<double>(); break;
    default: break;  // a type that paceline never reads
  }
}

void read_group(const hdf5::Group& group, std::uintmax_t file_size, int depth) {
  constexpr int deepest = 16;  // hard links may form cycles
  if (depth > deepest) throw nests_too_deep;
  read_attributes(group);
  for (const std::string& name : or_damaged([&] { return group.names(); })) {
    ignoring_errors([&] {
      if (group.is_external_link(name)) throw links_to_other_files;
      group.is_group(name) ? read_group(group.group(name), file_size, depth + 1)
                           : read_dataset(group.dataset(name), file_size);
    });
  }
}

void limit(int resource, rlim_t most) {
  const rlimit limits{most, most};
  setrlimit(static_cast<__rlimit_resource_t>(resource), &limits);
}

// Describes the end of a reader that returned no verdict.
std::string exit_text(int status) {
  if (!WIFSIGNALED(status)) return "cannot be examined";
  switch (WTERMSIG(status)) {
    case SIGXCPU:
    case SIGKILL: return "exceeds the CPU time for reading a file: it is damaged";
    case SIGSEGV:
    case SIGBUS:
    case SIGABRT:
    case SIGFPE:
    case SIGILL: return "crashes HDF5: it is damaged";
    default:
      return fmt::format("could not be examined: signal {} ended the process that read it",
                         WTERMSIG(status));
  }
}

// The environment of the child process: ours, with variables that keep its libraries to one thread.
// Threads take address space and CPU time, which the limits count, and OpenBLAS starts one per core
// when it is loaded.
std::vector<char*> environment_of_reader() {
  static std::array<char[32], 3> first = {"OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1",
                                          "MALLOC_ARENA_MAX=1"};
  std::vector<char*> all;
  for (char* variable : first) all.push_back(variable);  // getenv() returns the first match
  for (char** variable = environ; *variable != nullptr; ++variable) all.push_back(*variable);
  all.push_back(nullptr);
  return all;
}

int wait_for(pid_t child) {
  int status = 0;
  pid_t ended = 0;
  do {
    ended = waitpid(child, &status, 0);
  } while (ended < 0 && errno == EINTR);
  if (ended < 0) {
    throw EnvironmentError(
        fmt::format("a process that reads a file cannot be waited for: {}", std::strerror(errno)));
  }
  return status;
}

// Arguments: the file and, for split_option, the path before the names of its parts.
constexpr std::string_view read_option = "--read-everything";
constexpr std::string_view split_option = "--read-and-split";

bool has_reader = false;  // whether run_as_file_reader() was called

Verdict read_everything(const char* path) {
  constexpr rlim_t bytes = rlim_t{8} << 30U;
  constexpr rlim_t bytes_per_second = 1'000'000;  // measured: 3'700'000, for many small cases
  const std::uintmax_t size = std::filesystem::file_size(path);
  const rlim_t seconds = 5 + size / bytes_per_second;
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, seconds);
  limit(RLIMIT_AS, bytes);
  // Given a damaged group, HDF5 uses uninitialized memory, so the outcome depends on the memory's
  // previous contents. The file is therefore read once per fill value. The last one stays in effect
  // for splitting; it is not 0, because then HDF5 takes uninitialized pointers for null.
  constexpr std::array fills = {0, 0xa5, 0x01};
  try {
    for (const int fill : fills) {
      mallopt(M_PERTURB, fill);
      ignoring_errors([&] { read_group(hdf5::File::open(path), size, 0); });
      H5close();
    }
  } catch (const std::bad_alloc&) {
    return too_large;
  } catch (const std::length_error&) {
    return too_large;
  } catch (const Verdict verdict) {
    return verdict;
  }
  return readable;
}

// Writes the ids, or the message of the error, to standard output.
Verdict split_and_report(const char* path, const char* before) {
  Verdict verdict = readable;
  std::vector<std::string> lines;
  try {
    lines = split(path, before);
  } catch (const UsageError& error) {
    verdict = refused;
    lines = {error.what()};
  } catch (const StoppedError& error) {
    verdict = unwritable;
    lines = {error.what()};
  } catch (const std::bad_alloc&) {
    return too_large;
  }
  for (const std::string& line : lines) fmt::print("{}\n", line);
  return verdict;
}

// The child's standard output, in memory: a pipe could fill up, and so could a disk.
class Output : NonCopyable {
 public:
  Output() : descriptor_(memfd_create("paceline", MFD_CLOEXEC)) {}
  ~Output() { close(descriptor_); }
  [[nodiscard]] int descriptor() const { return descriptor_; }

  [[nodiscard]] std::vector<std::string> lines() const {
    std::string text(static_cast<std::size_t>(std::max<off_t>(0, lseek(descriptor_, 0, SEEK_END))),
                     '\0');
    const ssize_t size = pread(descriptor_, text.data(), text.size(), 0);
    std::istringstream stream(text.substr(0, static_cast<std::size_t>(std::max<ssize_t>(0, size))));
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }

 private:
  int descriptor_;
};

struct Reading {
  int verdict;                     // -1: the child returned none
  int status;                      // of waitpid()
  std::vector<std::string> lines;  // of its standard output
};

// Prints a line for files that take more than a few seconds.
void announce_long_reading(const std::filesystem::path& path, off_t size) {
  constexpr off_t large = 20'000'000;
  if (size < large) return;
  write_to(stderr, "reading {} ({})\n", path.string(), bytes_text(static_cast<double>(size)));
}

Reading read_in_child(const std::filesystem::path& path, std::vector<std::string> words) {
  const FileState before = state_of(path);
  announce_long_reading(path, static_cast<off_t>(before.second));
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const Output output;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output.descriptor(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int error = posix_spawn(&child, "/proc/self/exe", &actions, nullptr, arguments.data(),
                                environment_of_reader().data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    throw EnvironmentError(fmt::format("no process can be started to read {}: {}", path.string(),
                                       std::strerror(error)));
  }
  const int status = wait_for(child);
  if (state_of(path) != before) {
    throw UsageError(
        fmt::format("{} changed while it was read: wait until it is written, and read it again",
                    path.string()));
  }
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, status, output.lines()};
}

void require_sound(const std::filesystem::path& path, const Reading& reading) {
  const std::string message = reading.lines.empty() ? "" : reading.lines.front();
  switch (reading.verdict) {
    case readable: return;
    case links_to_other_files:
      throw UsageError(
          fmt::format("{} has links to other files: copy them into it", path.string()));
    case too_large:
      throw UsageError(fmt::format(
          "{} is damaged: a dataset claims more data than the file can hold", path.string()));
    case damaged: throw UsageError(fmt::format("{} is a damaged HDF5 file", path.string()));
    case nests_too_deep:
      throw UsageError(fmt::format("{} nests groups too deep: it is damaged", path.string()));
    case refused: throw UsageError(message);
    case unwritable: throw StoppedError(message);
    default: throw UsageError(fmt::format("{} {}", path.string(), exit_text(reading.status)));
  }
}

// Whether a process must read the file first. Throws UsageError if it is not a file.
bool needs_examination(const std::filesystem::path& path) {
  std::error_code failed;
  const bool is_there = std::filesystem::exists(path, failed);
  if (!is_there || std::filesystem::is_directory(path)) return false;  // reported when opened
  if (!std::filesystem::is_regular_file(path)) {
    throw UsageError(fmt::format("{} is not a file", path.string()));
  }
  return has_reader && hdf5::File::is_hdf5(path);
}

}  // namespace

std::optional<int> run_as_file_reader(int argc, char** argv) {
  has_reader = true;
  const bool reads = argc == 3 && argv[1] == read_option;
  const bool splits = argc == 4 && argv[1] == split_option;
  if (!reads && !splits) return std::nullopt;
  const int verdict = read_everything(argv[2]);
  if (reads || verdict != readable) return verdict;
  return split_and_report(argv[2], argv[3]);
}

void require_readable(const std::filesystem::path& path) {
  if (!needs_examination(path)) return;
  require_sound(path, read_in_child(path, {"paceline", std::string(read_option), path.string()}));
}

std::vector<std::string> split_untrusted(const std::filesystem::path& path,
                                         const std::filesystem::path& before) {
  if (!needs_examination(path)) return split(path, before);
  Reading reading =
      read_in_child(path, {"paceline", std::string(split_option), path.string(), before.string()});
  require_sound(path, reading);
  return std::move(reading.lines);
}

}  // namespace paceline
