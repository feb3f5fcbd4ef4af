#pragma once
// Finds the terminal that shows the output of a file descriptor.

#include <cstddef>
#include <string>

#include "core/non_copyable.h"

namespace paceline {

// Either the descriptor is a terminal, or it is a pipe, an ancestor process reads the pipe (mpirun
// does), and the ancestor's stderr is a terminal. Not found if the launcher runs on another node or
// as another user (srun), or if mpirun tags every line (--tag-output).
class Terminal : NonCopyable {
 public:
  explicit Terminal(int descriptor);
  ~Terminal();

  [[nodiscard]] bool found() const { return terminal_ >= 0; }
  [[nodiscard]] std::size_t width() const;  // columns; 80 if unknown

 private:
  int terminal_ = -1;  // descriptor for width(); -1: none
};

}  // namespace paceline
