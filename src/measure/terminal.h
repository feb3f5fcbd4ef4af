#pragma once
// The terminal, if any, that shows what is written to a file descriptor.

#include <cstddef>
#include <string>

#include "core/non_copyable.h"

namespace paceline {

// Either the descriptor is a terminal, or it is a pipe that a process above this one reads, as
// mpirun does, and the error output of that process is a terminal. Not found: a launcher on another
// node or of another user (srun), and an mpirun that marks every line (--tag-output).
class Terminal : NonCopyable {
 public:
  explicit Terminal(int descriptor);
  ~Terminal();

  [[nodiscard]] bool found() const { return terminal_ >= 0; }
  [[nodiscard]] std::size_t width() const;  // columns; 80 where it is not known

 private:
  int terminal_ = -1;  // open for width(), -1: none
};

}  // namespace paceline
