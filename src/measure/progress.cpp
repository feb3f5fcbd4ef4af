#include "measure/progress.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>

#include "core/screen.h"

namespace paceline {

namespace {

constexpr double seconds_between_lines = 10;  // without a terminal

// "4 s", "1 m 15 s", "1 h 2 m".
std::string duration_text(double seconds) {
  const long s = std::lround(seconds);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} m {} s", s / 60, s % 60);
  return fmt::format("{} h {} m", s / 3600, s % 3600 / 60);
}

}  // namespace

Progress::Progress(std::FILE* out, std::vector<double> work, double (*clock)())
    : out_(out),
      work_(std::move(work)),
      clock_(clock),
      began_(clock()),
      last_shown_(began_ - seconds_between_lines),
      live_(out != nullptr && terminal_columns(out) > 0) {
  const auto is_known = [](double w) { return std::isfinite(w) && w >= 0; };
  if (!std::all_of(work_.begin(), work_.end(), is_known)) work_.assign(work_.size(), 1);
  if (!live_ || clock != host_seconds) return;
  ticker_ = std::jthread([this](const std::stop_token& stop) {
    std::condition_variable_any never;
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      never.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; });
      show();
    }
  });
}

Progress::~Progress() { clear(); }

void Progress::begin_case(std::size_t index, const std::string& name) {
  const std::lock_guard lock(mutex_);
  index_ = index;
  name_ = name;
  stage_ = "set-up";
  case_began_ = clock_();
  if (!live_) last_shown_ = case_began_;
  show();
}

void Progress::update(const std::string& stage, double fraction) {
  const std::lock_guard lock(mutex_);
  stage_ = stage;
  if (fraction == 0) repetitions_began_ = clock_();
  const double set_up = repetitions_began_ - case_began_;
  if (fraction > 0) case_seconds_ = set_up + (clock_() - repetitions_began_) / fraction;
  show();
}

void Progress::end_case(const std::string& headline) {
  const std::lock_guard lock(mutex_);
  const double took = clock_() - case_began_;
  if (case_seconds_ > 0) finished_.push_back({work_.at(index_), took});
  case_seconds_ = 0;
  stage_.clear();
  if (out_ == nullptr) return;
  write_to(out_, "{}[{}/{}] {}: {} (took {}{}){}\n", live_ ? "\r" : "", index_ + 1, work_.size(),
           name_, headline, duration_text(took), left_text(), live_ ? "\x1b[K" : "");
  std::fflush(out_);
}

void Progress::clear() {
  const std::lock_guard lock(mutex_);
  stage_.clear();
  if (!live_) return;
  write_to(out_, "\r\x1b[K");
  std::fflush(out_);
}

// "[1/2] context 128: step 3/10 (1 m 5 s; 30 s left)"; a name that does not fit is cut.
void Progress::show() {
  const double now = clock_();
  const double shortest = live_ ? 0.1 : seconds_between_lines;
  if (out_ == nullptr || stage_.empty() || now - last_shown_ < shortest) return;
  last_shown_ = now;
  const std::string head = fmt::format("[{}/{}] ", index_ + 1, work_.size());
  const std::string tail =
      fmt::format(": {} ({}{})", stage_, duration_text(now - began_), left_text());
  if (live_) {
    const std::size_t columns = terminal_columns(out_);
    const std::size_t others = std::min(columns, head.size() + tail.size() + 1);
    write_to(out_, "\r{}{:.{}}{}\x1b[K", head, name_, columns - others, tail);
  } else {
    write_to(out_, "{}{}{}\n", head, name_, tail);
  }
  std::fflush(out_);
}

// "; 30 s left"; empty before the first repetition. A case takes latency + work / rate, fitted to
// the cases so far.
std::string Progress::left_text() const {
  std::vector<TimedSize> known = finished_;
  if (case_seconds_ > 0) known.push_back({work_.at(index_), case_seconds_});
  if (known.empty()) return "";
  LatencyBandwidth fit = fit_latency_bandwidth(known);
  if (std::isnan(fit.latency)) fit = {.bandwidth = known.back().bytes / known.back().seconds};
  const auto predicted = [&](double work) {
    return work > 0 ? fit.latency + work / fit.bandwidth : 0;
  };
  double left = 0;
  if (!stage_.empty()) {
    const double whole = case_seconds_ > 0 ? case_seconds_ : predicted(work_.at(index_));
    left = std::max(0.0, whole - (clock_() - case_began_));
  }
  for (std::size_t i = index_ + 1; i < work_.size(); ++i) left += predicted(work_[i]);
  return left > 0 ? fmt::format("; {} left", duration_text(left)) : "";
}

std::FILE* progress_stream() {
  for (const char* name : {"OMPI_MCA_orte_tag_output", "OMPI_MCA_orte_timestamp_output"}) {
    const char* marks = std::getenv(name);  // each line, which then cannot be rewritten
    if (marks != nullptr && std::string(marks) == "1") return stderr;
  }
  struct stat target {};
  const bool piped = fstat(STDERR_FILENO, &target) == 0 && S_ISFIFO(target.st_mode);
  return piped && terminal_columns(screen) > 0 ? screen : stderr;
}

}  // namespace paceline
