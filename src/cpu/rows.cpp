#include "cpu/rows.h"

#include <type_traits>

namespace paceline {

template <class C>
void load(C* to, const Tensor& from, std::int64_t first, std::int64_t n) {
  dispatch_floating(from.dtype, [&]<class T>() {
    using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const T* x = static_cast<const T*>(from.data) + first;
    for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<C>(static_cast<Wide>(x[i]));
  });
}

template <class C>
void store(const Tensor& to, std::int64_t first, const C* from, std::int64_t n) {
  dispatch_floating(to.dtype, [&]<class T>() {
    T* x = static_cast<T*>(to.data) + first;
    for (std::int64_t i = 0; i < n; ++i) x[i] = static_cast<T>(from[i]);
  });
}

template void load(float*, const Tensor&, std::int64_t, std::int64_t);
template void load(double*, const Tensor&, std::int64_t, std::int64_t);
template void store(const Tensor&, std::int64_t, const float*, std::int64_t);
template void store(const Tensor&, std::int64_t, const double*, std::int64_t);

}  // namespace paceline
