// Opening HDF5 files, the reasons for which a file or a dataset cannot be read, and what is said if
// HDF5 crashes on one.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <system_error>

#include "core/error.h"
#include "core/hdf5.h"

namespace paceline::hdf5 {

namespace {

// flock's error for the shared lock that HDF5 takes on a file that it reads; 0 if it has none.
int lock_error(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return 0;
  const int error = flock(descriptor, LOCK_SH | LOCK_NB) == 0 ? 0 : errno;
  close(descriptor);
  return error;
}

// Writers that use version 3 of the superblock or later mark the file while they have it open.
bool is_marked_as_open(const std::filesystem::path& path) {
  constexpr std::size_t version = 8;
  constexpr std::size_t flags = 11;
  char superblock[flags + 1] = {};
  std::ifstream(path, std::ios::binary).read(superblock, sizeof superblock);
  return std::string_view(superblock, 4) == "\x89HDF" && superblock[version] >= 3 &&
         superblock[flags] != 0;
}

hid_t open_without_lock([[maybe_unused]] const std::filesystem::path& path) {
#if H5_VERSION_GE(1, 10, 7)
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "H5Pcreate");
  check(H5Pset_file_locking(access.id(), false, true), "H5Pset_file_locking");
  return H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id());
#else
  return H5I_INVALID_HID;
#endif
}

std::string why_not_opened(const std::filesystem::path& path) {
  if (access(path.c_str(), R_OK) != 0) return std::generic_category().message(errno);
  if (const int error = lock_error(path)) {
    return error == EWOULDBLOCK
               ? "it is open for writing in another program; wait until that has closed it"
               : "its file system has no locks; set HDF5_USE_FILE_LOCKING=FALSE";
  }
  if (is_marked_as_open(path)) {
    return "a program is writing it, or ended without closing it; in the latter case h5clear -s "
           "makes it readable";
  }
  return path.extension() == ".xz" ? "it is compressed; decompress it with unxz first"
                                   : "it is not an HDF5 file, or a damaged one";
}

std::string crash_line;  // a signal handler must not make it

void print_and_exit(int /*signal*/) {
  (void)!write(STDERR_FILENO, crash_line.data(), crash_line.size());
  _exit(static_cast<int>(ExitCode::usage));
}

}  // namespace

CrashReport::CrashReport(std::string_view file) {
  crash_line =
      without_control_characters(fmt::format("paceline: {} crashes HDF5: it is damaged", file));
  crash_line += '\n';
  struct sigaction action {};
  action.sa_handler = print_and_exit;
  for (std::size_t i = 0; i < signals.size(); ++i) {
    sigaction(signals[i], &action, &previous_[i]);
  }
}

CrashReport::~CrashReport() {
  for (std::size_t i = 0; i < signals.size(); ++i) {
    sigaction(signals[i], &previous_[i], nullptr);
  }
}

bool File::lacks_locks(const std::filesystem::path& path) {
  const char* given = std::getenv("HDF5_USE_FILE_LOCKING");
  const std::string_view use = given == nullptr ? "" : given;
  if (use == "FALSE" || use == "0") return false;  // HDF5 takes none
  const int error = lock_error(path);
  return error != 0 && error != EWOULDBLOCK;
}

File File::open(const std::filesystem::path& path) {
  silence();
  std::error_code none;
  if (std::filesystem::exists(path, none) && !std::filesystem::is_regular_file(path, none)) {
    throw Hdf5Error("it is not a file");
  }
  hid_t id = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  if (id < 0 && lacks_locks(path)) id = open_without_lock(path);
  if (id < 0) throw Hdf5Error(why_not_opened(path));
  return File(Handle(id, H5Fclose, "H5Fopen"));
}

void Dataset::require_readable() const {
  const Handle made(H5Dget_create_plist(id()), H5Pclose, "H5Dget_create_plist");
  if (H5Pget_layout(made.id()) == H5D_VIRTUAL || H5Pget_external_count(made.id()) > 0) {
    throw Hdf5Error("a dataset has its values in other files; copy them into it");
  }
  for (int i = 0; i < H5Pget_nfilters(made.id()); ++i) {
    unsigned flags = 0;
    std::size_t values = 0;
    char name[64] = "";
    const H5Z_filter_t filter = H5Pget_filter2(made.id(), static_cast<unsigned>(i), &flags, &values,
                                               nullptr, sizeof name, name, nullptr);
    if (filter < 0 || H5Zfilter_avail(filter) > 0) continue;
    throw Hdf5Error(fmt::format(
        "a dataset is compressed with filter {}{}, which the HDF5 library here lacks; write it "
        "with gzip, or name the folder of the filter's plugin in HDF5_PLUGIN_PATH",
        filter, name[0] == '\0' ? "" : fmt::format(" ({})", name)));
  }
}

void Dataset::check_read(herr_t result) const {
  if (result >= 0) return;
  require_readable();
  throw_error("H5Dread");
}

}  // namespace paceline::hdf5
