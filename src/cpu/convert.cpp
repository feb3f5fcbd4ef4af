#include "cpu/convert.h"

#include <type_traits>

namespace paceline {

namespace {

template <class T>
concept Half = std::is_same_v<T, bf16> || std::is_same_v<T, f16>;

template <class To, class From>
To converted(From x) {
  if constexpr (Half<To>) {
    return To(static_cast<float>(x));
  } else if constexpr (Half<From>) {
    return static_cast<To>(static_cast<float>(x));
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace

template <class C>
void load(C* to, const Tensor& from, std::int64_t first, std::int64_t n) {
  dispatch_floating(from.dtype, [&]<class T>() {
    const T* x = static_cast<const T*>(from.data) + first;
    for (std::int64_t i = 0; i < n; ++i) to[i] = converted<C>(x[i]);
  });
}

template <class C>
void store(const Tensor& to, std::int64_t first, const C* from, std::int64_t n) {
  dispatch_floating(to.dtype, [&]<class T>() {
    T* x = static_cast<T*>(to.data) + first;
    for (std::int64_t i = 0; i < n; ++i) x[i] = converted<T>(from[i]);
  });
}

template void load(float*, const Tensor&, std::int64_t, std::int64_t);
template void load(double*, const Tensor&, std::int64_t, std::int64_t);
template void store(const Tensor&, std::int64_t, const float*, std::int64_t);
template void store(const Tensor&, std::int64_t, const double*, std::int64_t);

}  // namespace paceline
