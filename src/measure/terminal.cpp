#include "measure/terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

namespace paceline {

namespace {

namespace fs = std::filesystem;

// "pipe:[172855]"; empty if it cannot be read.
std::string target_of(const fs::path& link) {
  std::error_code failed;
  return fs::read_symlink(link, failed).string();
}

bool reads(const fs::path& process, const std::string& pipe) {
  std::error_code failed;
  for (fs::directory_iterator it(process / "fd", failed), end; !failed && it != end;
       it.increment(failed)) {
    // The link's own mode is the descriptor's open mode.
    struct stat link {};
    const bool known = lstat(it->path().c_str(), &link) == 0;
    if (known && (link.st_mode & S_IRUSR) != 0 && target_of(it->path()) == pipe) return true;
  }
  return false;
}

// 0 if it cannot be read.
int parent_of(const fs::path& process) {
  std::ifstream file(process / "stat");  // "17 (a name) S 16 ..."
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_ends = text.rfind(") ");
  constexpr std::size_t state = 4;  // ") S "
  return name_ends == std::string::npos ? 0 : std::atoi(text.c_str() + name_ends + state);
}

bool mpirun_marks_lines() {
  for (const char* name : {"OMPI_MCA_orte_tag_output", "OMPI_MCA_orte_timestamp_output"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && std::string_view(value) == "1") return true;
  }
  return false;
}

// The path of the stderr of the ancestor that reads the pipe; empty: none does.
std::string reader_s_stderr(const std::string& pipe) {
  constexpr int most = 16;  // ancestors: shells, scripts
  int pid = getppid();
  for (int i = 0; i < most && pid > 1; ++i) {
    const fs::path process = fmt::format("/proc/{}", pid);
    if (reads(process, pipe)) return process / "fd/2";
    pid = parent_of(process);
  }
  return {};
}

int terminal_at(const std::string& path) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0 || isatty(descriptor) == 1) return descriptor;
  close(descriptor);
  return -1;
}

}  // namespace

Terminal::Terminal(int descriptor) {
  if (isatty(descriptor) == 1) {
    terminal_ = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    return;
  }
  const std::string pipe = target_of(fmt::format("/proc/self/fd/{}", descriptor));
  if (!pipe.starts_with("pipe:") || mpirun_marks_lines()) return;
  if (const std::string path = reader_s_stderr(pipe); !path.empty()) terminal_ = terminal_at(path);
}

Terminal::~Terminal() {
  if (found()) close(terminal_);
}

std::size_t Terminal::width() const {
  constexpr std::size_t usual = 80;
  winsize size{};
  const bool known = ioctl(terminal_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : usual;
}

}  // namespace paceline
