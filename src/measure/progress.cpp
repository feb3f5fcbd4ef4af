#include "measure/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "core/units.h"

namespace paceline {

namespace {

// A line that is longer than the terminal is wide cannot be rewritten.
std::size_t terminal_width(std::FILE* out) {
  constexpr std::size_t usual = 80;
  winsize size{};
  const bool known = ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : usual;
}

}  // namespace

Progress::Progress(bool enabled, int cases, std::FILE* out, Clock clock)
    : enabled_(enabled),
      terminal_(enabled && isatty(fileno(out)) == 1),
      cases_(cases),
      out_(out),
      clock_(clock),
      began_(clock()),
      case_began_(began_) {}

Progress::~Progress() {
  if (terminal_ && last_shown_ > 0) rewrite("");
}

void Progress::begin_case(int index, const std::string& name) {
  index_ = index;
  name_ = name;
  case_began_ = clock_();
  if (terminal_) show("set-up", 0);
}

void Progress::update(const std::string& what, double fraction) {
  constexpr double shortest = 0.1;  // seconds between two lines
  if (terminal_ && clock_() - last_shown_ >= shortest) show(what, fraction);
}

void Progress::end_case(const std::string& headline) {
  if (!enabled_) return;
  if (terminal_) {
    show(headline, 1);
    return;
  }
  fmt::print(out_, "[{}/{}] {}: {} (took {})\n", index_ + 1, cases_, name_, headline,
             duration_text(clock_() - case_began_));
  std::fflush(out_);
}

void Progress::show(const std::string& what, double fraction) {
  std::string line = fmt::format("[{}/{}] {}: {}", index_ + 1, cases_, name_, what);
  const double done = index_ + std::clamp(fraction, 0.0, 1.0);
  if (done > 0 && done < cases_) {
    const double elapsed = clock_() - began_;
    line += fmt::format(", {} left", duration_text(elapsed * (cases_ - done) / done));
  }
  last_shown_ = clock_();
  rewrite(line);
}

void Progress::rewrite(const std::string& line) {
  fmt::print(out_, "\r{}\x1b[K", line.substr(0, terminal_width(out_) - 1));
  std::fflush(out_);
}

double fraction_done(const SamplerConfig& config, bool warmup, int done) {
  const int over = warmup ? done : config.warmup + done;
  return static_cast<double>(over) / (config.warmup + measured_at_most(config));
}

std::function<void(bool warmup, int done, int total)> shown_on(Progress& progress,
                                                               const SamplerConfig& config) {
  return [&progress, config](bool warmup, int done, int total) {
    progress.update(fmt::format("{} {}/{}", warmup ? "warm-up" : "step", done, total),
                    fraction_done(config, warmup, done));
  };
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds)) return "-";
  constexpr std::int64_t minute = 60;
  constexpr std::int64_t hour = 60 * minute;
  constexpr std::int64_t day = 24 * hour;
  const auto s = static_cast<std::int64_t>(std::llround(seconds));
  if (s < minute) return fmt::format("{} s", s);
  if (s < hour) return fmt::format("{} m {} s", s / minute, s % minute);
  if (s < day) return fmt::format("{} h {} m", s / hour, s % hour / minute);
  return fmt::format("{} d {} h", s / day, s % day / hour);
}

std::string seconds_text(double seconds) {
  if (std::isnan(seconds)) return "-";
  constexpr std::array<std::string_view, 4> units = {"s", "ms", "us", "ns"};
  constexpr double rounds_to_1 = 0.9995;
  std::size_t i = 0;
  while (seconds != 0 && std::abs(seconds) < rounds_to_1 && i + 1 < units.size()) {
    seconds *= 1000;
    ++i;
  }
  return fmt::format("{} {}", number_text(seconds), units.at(i));
}

}  // namespace paceline
