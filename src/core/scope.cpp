#include "core/scope.h"

namespace paceline {

void ScopeStack::enter(std::string_view name, const OpWork* work) {
  outer_.push_back(current_);
  current_ = inner(name, work == nullptr);
  show(current_);
  if (listener_ != nullptr) listener_->entered(current_, work);
}

void ScopeStack::leave() {
  if (listener_ != nullptr) listener_->left();
  hide();
  current_ = outer_.back();
  outer_.pop_back();
}

// Steps enter the same scopes in the same order, so that the first comparison usually matches.
ScopeId ScopeStack::inner(std::string_view name, bool is_region) {
  ScopePath& here = paths_[current_];
  const std::size_t count = here.inner.size();
  std::size_t place = here.next;
  for (std::size_t looks = 0; looks < count; ++looks, ++place) {
    if (place >= count) place = 0;
    if (paths_[here.inner[place]].name != name) continue;
    here.next = place + 1;
    return here.inner[place];
  }
  const ScopeId added = paths_.size();
  here.inner.push_back(added);
  here.next = 0;
  std::string text = here.text.empty() ? std::string(name) : here.text + '/' + std::string(name);
  paths_.push_back({.name = std::string(name),
                    .text = std::move(text),
                    .region = is_region ? added : here.region});
  return added;
}

}  // namespace paceline
