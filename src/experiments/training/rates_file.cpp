#include "experiments/training/rates_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace paceline {

namespace {

using Json = nlohmann::json;

// A value of the file, with its place for errors: "rates.json: steps[0].device".
class Field {
 public:
  Field(const Json& json, std::string place) : json_(json), place_(std::move(place)) {}

  [[nodiscard]] Field operator[](const std::string& name) const {
    require(json_.is_object() && json_.contains(name), "has no " + name);
    return {json_[name], place_ + (place_.ends_with(':') ? " " : ".") + name};
  }
  [[nodiscard]] std::vector<Field> elements() const {
    require(json_.is_array(), "must be an array");
    std::vector<Field> all;
    for (const Json& element : json_) {
      all.push_back({element, fmt::format("{}[{}]", place_, all.size())});
    }
    return all;
  }
  [[nodiscard]] std::map<std::string, Field> members() const {
    require(json_.is_object(), "must be an object");
    std::map<std::string, Field> all;
    for (const auto& [name, _] : json_.items()) all.emplace(name, (*this)[name]);
    return all;
  }
  [[nodiscard]] std::string text() const {
    require(json_.is_string(), "must be a text");
    return json_.get<std::string>();
  }
  [[nodiscard]] double number() const {
    require(json_.is_number() && json_.get<double>() >= 0, "must be a number, at least 0");
    return json_.get<double>();
  }
  [[nodiscard]] double positive() const {
    require(json_.is_number() && json_.get<double>() > 0, "must be a number above 0");
    return json_.get<double>();
  }
  // null: unlimited.
  [[nodiscard]] double rate() const {
    return json_.is_null() ? std::numeric_limits<double>::infinity() : positive();
  }
  [[nodiscard]] std::int64_t ranks() const {
    constexpr std::int64_t most = 1 << 20;
    const bool fits = json_.is_number_integer() && json_ >= 2 && json_ <= most;
    require(fits, fmt::format("must be an integer from 2 to {}", most));
    return json_.get<std::int64_t>();
  }

 private:
  void require(bool holds, const std::string& what) const {
    if (!holds) throw UsageError(fmt::format("{} {}", place_, what));
  }

  const Json& json_;
  std::string place_;
};

StepRates steps_of(const Field& field) {
  StepRates steps{.device = field["device"].text(), .group = field["group"].text()};
  for (const WorkKind& kind : work_kinds) {
    steps.rates.*kind.rate = field["rates"][std::string(kind.name) + "_per_s"].rate();
  }
  for (const auto& [size, measured] : field["sizes"].members()) {
    auto& points = steps.sizes[size];
    for (const Field& point : measured.elements()) {
      points.emplace_back(point["tokens"].positive(), point["ratio"].positive());
    }
    std::stable_sort(points.begin(), points.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  return steps;
}

FittedLink link_of(const Field& field) {
  return {.device = field["device"].text(),
          .backend = field["backend"].text(),
          .op = field["op"].text(),
          .dtype = field["dtype"].text(),
          .redop = field["redop"].text(),
          .cache = field["cache"].text(),
          .ranks = field["ranks"].ranks(),
          .link = {.latency = field["latency_s"].number(),
                   .bandwidth = field["bandwidth_bytes_per_s"].positive()}};
}

}  // namespace

RatesFile read_rates(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) {
    throw UsageError(fmt::format("{}: is no file; make it with paceline-analysis rates", path));
  }
  std::ifstream stream(path);
  const Json json = Json::parse(stream, nullptr, false);
  if (json.is_discarded()) {
    throw UsageError(fmt::format("{}: is not JSON; make it with paceline-analysis rates", path));
  }
  const Field root(json, path + ":");
  RatesFile file{.path = path};
  for (const Field& steps : root["steps"].elements()) file.steps.push_back(steps_of(steps));
  for (const Field& link : root["links"].elements()) file.links.push_back(link_of(link));
  for (const auto& [kind, part] : root["contention"].members()) {
    file.contention[kind] = part.number();
  }
  return file;
}

}  // namespace paceline
