#pragma once
// A terminal for tests.

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/non_copyable.h"

namespace paceline {

// A terminal of 60 columns; the text written to `out` is read from its other end.
class TestTerminal : NonCopyable {
 public:
  TestTerminal() : master_(posix_openpt(O_RDWR | O_NOCTTY)) {
    grantpt(master_);
    unlockpt(master_);
    out_ = std::fopen(ptsname(master_), "w");
    winsize size{};
    size.ws_row = 24;
    size.ws_col = 60;
    ioctl(master_, TIOCSWINSZ, &size);
    fcntl(master_, F_SETFL, O_NONBLOCK);
  }
  ~TestTerminal() {
    std::fclose(out_);
    close(master_);
  }

  [[nodiscard]] std::FILE* out() const { return out_; }
  [[nodiscard]] std::string read() const {
    std::string text(4096, '\0');
    const ssize_t n = ::read(master_, text.data(), text.size());
    text.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
    return text;
  }

 private:
  int master_;
  std::FILE* out_ = nullptr;
};

}  // namespace paceline
