#pragma once

#include <memory>
#include <string_view>

#include "core/world.h"

namespace paceline {

// The operation of a rank that no other rank needs: it never times out, and its rank does not count
// as one that did not arrive.
inline constexpr std::string_view idle = "idle";

// Ends a launch whose ranks wait for each other for longer than the timeout, with one line that has
// the case, the operation that did not finish, and the ranks that did not arrive with their hosts.
// Creation and destruction are collective over MPI_COMM_WORLD; destruction waits for no other rank.
[[nodiscard]] std::unique_ptr<Watchdog> make_mpi_watchdog(double timeout_seconds);

}  // namespace paceline
