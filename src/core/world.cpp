#include "core/world.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdlib>

#include "core/error.h"

namespace paceline {

std::string node_name() {
  if (const char* node = std::getenv("SLURMD_NODENAME")) return node;
  utsname system{};
  uname(&system);
  return system.nodename;
}

std::string ranks_text(const std::vector<int>& ranks) {
  constexpr std::size_t most = 8;
  const auto end = ranks.begin() + static_cast<std::ptrdiff_t>(std::min(ranks.size(), most));
  return fmt::format("rank{} {}{}", ranks.size() == 1 ? "" : "s",
                     fmt::join(ranks.begin(), end, ", "),
                     ranks.size() > most ? fmt::format(" and {} more", ranks.size() - most) : "");
}

void collectively(World& world, const std::function<void()>& work) {
  int code = 0;
  std::string message;
  try {
    work();
  } catch (const Error& error) {
    code = static_cast<int>(error.code());
    message = error.what();
  }
  const int worst = static_cast<int>(world.max(code));
  if (worst == 0) return;
  const std::vector<std::string> all =
      world.gather(code == worst ? std::string(1, '1') + message : std::string(1, '0'));
  const auto threw = [](const std::string& text) { return text.front() == '1'; };
  const auto first = std::find_if(all.begin(), all.end(), threw);  // none on other ranks than 0
  std::string verdict = first == all.end() ? "" : first->substr(1);
  if (first > all.begin() && std::count_if(first, all.end(), threw) == 1) {
    verdict += fmt::format(" (rank {})", first - all.begin());
  }
  throw Error(static_cast<ExitCode>(worst), world.broadcast(verdict, 0));
}

}  // namespace paceline
