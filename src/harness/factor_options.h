#pragma once
// The options of an experiment's factors, and the cases made of their values.

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "harness/option_parser.h"
#include "measure/factors.h"
#include "measure/value_range.h"

namespace paceline {

template <class C>
class FactorOptions {
 public:
  // defaults: the values of factors without a given option.
  explicit FactorOptions(Factors<C> factors, C defaults = {})
      : factors_(std::move(factors)), defaults_(std::move(defaults)), values_(factors_.size()) {
    for (std::size_t i = 0; i < factors_.size(); ++i) {
      if (!factors_[i].defaults.empty()) set(i, {std::string(factors_[i].defaults)});
    }
  }

  [[nodiscard]] const Factors<C>& factors() const { return factors_; }

  void declare(OptionParser& p) {
    p.note(range_syntax);
    for (std::size_t i = 0; i < factors_.size(); ++i) {
      const Factor<C>& f = factors_[i];
      if (!f.has_option()) continue;
      p.option(f.option, help_of(f), [this, i](const OptionParser::Texts& t) { set(i, t); },
               {.type = f.type,
                .list = f.use == FactorUse::axis,
                .implicit_value = std::string(f.implicit_value),
                .default_value = standard_of(f)});
    }
  }

  // Called after parsing: stores which options were given by name; each must apply to at least one
  // case.
  void finish(const OptionParser& p) {
    for (const Factor<C>& f : factors_) {
      if (f.has_option() && p.by_name(f.option)) by_name_.insert(f.option);
    }
  }
  [[nodiscard]] bool by_name(const std::string& option) const { return by_name_.count(option) > 0; }
  // Replaces the values of an option.
  void replace(const std::string& option, const std::string& text) {
    for (std::size_t i = 0; i < factors_.size(); ++i) {
      if (factors_[i].option == option) set(i, {text});
    }
  }

  // The case of the first value of every option; factors that follow from the launch are not set.
  [[nodiscard]] C first() const {
    C c = defaults_;
    for (const auto& values : values_) {
      if (!values.empty()) values.front()(c);
    }
    return c;
  }
  // The product of all axes; later axes vary faster. complete(case) sets the factors that follow
  // from the launch; a case for which it returns false is dropped. Throws UsageError for an option
  // that was given by name and applies to no case.
  template <class Complete>
  [[nodiscard]] std::vector<C> cases(const Complete& complete) const {
    std::vector<C> product = {defaults_};
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const auto& values = values_[i];
      if (values.empty()) continue;
      const Factor<C>& f = factors_[i];
      const auto multiplies = [&](const C& c) { return f.multiplies_everywhere || f.applies(c); };
      constexpr std::size_t most = 100'000;
      const auto multiplied =
          static_cast<std::size_t>(std::count_if(product.begin(), product.end(), multiplies));
      if (product.size() + multiplied * (values.size() - 1) > most) {
        throw UsageError(fmt::format("{}: its {} values make more than {} cases; give fewer",
                                     f.option, values.size(), most));
      }
      std::vector<C> wider;
      for (const C& c : product) {
        if (!multiplies(c)) {
          wider.push_back(c);
          continue;
        }
        for (const auto& set_value : values) set_value(wider.emplace_back(c));
      }
      product = std::move(wider);
    }
    std::erase_if(product, [&](C& c) { return !complete(c); });
    std::vector<C> all = folded(factors_, std::move(product), defaults_);
    for (const Factor<C>& f : factors_) {
      const bool used =
          std::any_of(all.begin(), all.end(), [&](const C& c) { return f.applies(c); });
      if (used || !by_name(f.option) || is_default(f)) continue;
      throw UsageError(
          fmt::format("{}: applies to no case here; it goes with {}", f.option, f.goes_with));
    }
    return all;
  }

 private:
  [[nodiscard]] static OptionParser::Texts texts_of(const Factor<C>& f,
                                                    const OptionParser::Texts& raw) {
    if (f.use != FactorUse::axis) return {OptionParser::single(raw)};
    OptionParser::Texts texts;
    for (const std::string& part : OptionParser::split(raw)) {
      for (std::string& text : values_of_range(part, f.type, f.range)) {
        texts.push_back(std::move(text));
      }
    }
    return texts;
  }

  // A setting given with its default value, such as --profile 0, need not apply to any case.
  [[nodiscard]] bool is_default(const Factor<C>& f) const {
    return f.use == FactorUse::setting && f.value(first()) == f.value(defaults_);
  }

  void set(std::size_t i, const OptionParser::Texts& raw) {
    values_[i].clear();
    for (const std::string& text : texts_of(factors_[i], raw)) {
      if (text.empty()) throw UsageError("needs a value");
      values_[i].push_back(factors_[i].read(text));
    }
  }

  // The default as the option would be written; empty if it depends on the launch or on other
  // options.
  [[nodiscard]] std::string standard_of(const Factor<C>& f) const {
    if (!f.default_text.empty()) return "";
    if (!f.defaults.empty()) return std::string(f.defaults);
    const Value value = f.value(defaults_);
    if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "yes" : "no";
    return to_text(value);
  }

  // "tokens per sequence (a,b, a..b) [128]", "of gradients between ranks (fp32 bf16, a,b) [fp32]"
  [[nodiscard]] std::string help_of(const Factor<C>& f) const {
    const std::string standard =
        f.default_text.empty() ? standard_of(f) : std::string(f.default_text);
    std::string values = f.choices;
    if (f.use == FactorUse::axis) values += values.empty() ? "a,b" : ", a,b";
    if (f.use == FactorUse::axis && is_number(f.type)) values += ", a..b";
    std::string help(f.help);
    if (!values.empty()) help += fmt::format("{}({})", help.empty() ? "" : " ", values);
    return fmt::format("{}{}[{}]", help, help.empty() ? "" : " ", standard);
  }

  Factors<C> factors_;
  C defaults_;
  std::vector<std::vector<std::function<void(C&)>>> values_;  // by factor; empty: the default
  std::set<std::string> by_name_;
};

}  // namespace paceline
