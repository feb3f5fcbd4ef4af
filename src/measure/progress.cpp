#include "measure/progress.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <string_view>

#include "core/screen.h"
#include "core/units.h"

namespace paceline {

namespace {

constexpr double long_ago = -std::numeric_limits<double>::infinity();

}  // namespace

Progress::Progress(bool enabled, std::vector<double> work, std::FILE* out, Clock clock)
    : enabled_(enabled),
      cases_(work.size()),
      out_(out),
      terminal_(enabled ? fileno(out) : -1),
      clock_(clock),
      left_(std::move(work)) {}

Progress::Progress(bool enabled, int cases, std::FILE* out, Clock clock)
    : Progress(enabled, std::vector<double>(static_cast<std::size_t>(cases), 1), out, clock) {}

void Progress::begin_case(int index, const std::string& name) {
  index_ = index;
  name_ = name;
  case_began_ = clock_();
  left_.begin_case(static_cast<std::size_t>(index), case_began_);
  last_shown_ = terminal_.found() ? long_ago : case_began_;
  update("set-up");
}

void Progress::update(const std::string& what) { show(what); }

void Progress::begin_repetitions() { left_.begin_repetitions(clock_()); }

void Progress::repetition(const std::string& what, double fraction) {
  left_.repetitions_done(fraction, clock_());
  show(what);
}

void Progress::end_case(const std::string& headline) {
  const double now = clock_();
  left_.end_case();
  if (!enabled_) return;
  if (terminal_.found()) {
    last_shown_ = long_ago;
    show(headline);
    return;
  }
  const std::string left = left_text();
  write_to(out_, "{} (took {}{})\n", line(headline), duration_text(now - case_began_),
           left.empty() ? "" : "; " + left);
  std::fflush(out_);
}

void Progress::clear() {
  if (line_shown_) rewrite("");
  line_shown_ = false;
}

void Progress::show(const std::string& what) {
  if (!enabled_) return;
  const double shortest = terminal_.found() ? 0.1 : 10;  // seconds between two lines
  const double now = clock_();
  if (now - last_shown_ < shortest) return;
  last_shown_ = now;
  const std::string left = left_text();
  const std::string text = line(what) + (left.empty() ? "" : ", " + left);
  if (terminal_.found()) {
    rewrite(text);
    line_shown_ = true;
    return;
  }
  write_to(out_, "{}\n", text);
  std::fflush(out_);
}

// "[1/2] context 128: step 3/10"
std::string Progress::line(const std::string& what) const {
  return fmt::format("[{}/{}] {}: {}", index_ + 1, cases_, name_, what);
}

// "30 s left"; empty if unknown or 0.
std::string Progress::left_text() const {
  const double left = left_.seconds(clock_()).value_or(0);
  return left > 0 ? duration_text(left) + " left" : "";
}

void Progress::rewrite(const std::string& line) {
  write_to(out_, "\r{}\x1b[K", line.substr(0, terminal_.width() - 1));
  std::fflush(out_);
}

double fraction_done(const SamplerConfig& config, bool warmup, int done, int total) {
  const int before = warmup ? 0 : std::max(config.warmup, config.max_warmup);
  const int after = warmup ? measured_at_most(config) : 0;
  return static_cast<double>(before + done) / (before + total + after);
}

std::function<void(bool warmup, int done, int total)> shown_on(Progress& progress,
                                                               const SamplerConfig& config) {
  progress.begin_repetitions();
  return [&progress, config](bool warmup, int done, int total) {
    progress.repetition(fmt::format("{} {}/{}", warmup ? "warm-up" : "step", done, total),
                        fraction_done(config, warmup, done, total));
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
