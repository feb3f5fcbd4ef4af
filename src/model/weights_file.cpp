#include "model/weights_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cmath>
#include <set>
#include <span>
#include <system_error>

#include "core/error.h"
#include "core/fnv1a.h"
#include "core/hdf5.h"
#include "core/random.h"
#include "core/whole_file.h"

namespace paceline {

namespace {

template <class F>
void for_each_view(const std::vector<ParameterEntry>& entries, F&& f) {
  for (const ParameterEntry& entry : entries) {
    for (const ParameterView& view : entry.views) f(entry, view);
  }
}

// Calls f(first, x) for every part of a view that the store keeps; x holds the view's elements from
// index `first` on.
template <class F>
void for_each_part(const ParameterStore& store, const ParameterEntry& entry,
                   const ParameterView& view, F&& f) {
  const StoreRange whole{entry.offset + view.offset, view.shape.numel()};
  for (const StoreRange& kept : store.kept()) {
    const StoreRange part = intersection(kept, whole);
    if (part.length > 0) f(part.offset - whole.offset, store.parameters(part));
  }
}

hdf5::Dims dims_of(const Shape& shape) {
  hdf5::Dims dims;
  for (int i = 0; i < shape.ndim(); ++i) dims.push_back(static_cast<hsize_t>(shape[i]));
  return dims;
}

[[noreturn]] void refuse_weights(const std::filesystem::path& file, const std::string& what) {
  throw UsageError(fmt::format("--load-weights: {} {}", file.string(), what));
}

// Calls read(group) with the HDF5 group that holds the weights.
template <class F>
void read_weights(const std::filesystem::path& file, F&& read) {
  const hdf5::CrashReport report("--load-weights: " + file.string());
  try {
    const hdf5::File h5 = hdf5::File::open(file);
    h5.refuse_external_link("weights");
    read(h5.group(h5.has("weights") ? "weights" : "/"));
  } catch (const Hdf5Error& error) {
    refuse_weights(file, std::string("cannot be read: ") + error.what());
  }
}

// --dump writes this file and renames it when it is complete.
std::filesystem::path temporary_of(const std::filesystem::path& dump) {
  return temporary_in(dump.parent_path(), dump.filename().string());
}

}  // namespace

void initialise_weights(Ops& ops, ParameterStore& store, std::uint64_t seed) {
  constexpr double cut = 3;  // standard deviations
  std::uint64_t stream = 0;
  for_each_view(store.entries(), [&](const ParameterEntry& entry, const ParameterView& view) {
    const Random random(seed, stream++);
    const bool vector = view.shape.ndim() == 1;
    const bool embedding = view.name == "token_embeddings.weight";
    const double std = vector || embedding
                           ? 1
                           : std::sqrt(2.0 / static_cast<double>(view.shape[0] + view.shape[1]));
    for_each_part(store, entry, view, [&](std::int64_t first, const Tensor& x) {
      if (vector) {
        ops.fill(x, 1);
      } else {
        ops.fill_normal(x, random, TruncatedNormal(std, cut * std), first);
      }
    });
  });
  store.refresh_copy(ops);
}

void check_weights_file(const std::filesystem::path& file, const ModelConfig& config) {
  read_weights(file, [&](const hdf5::Group& group) {
    std::set<std::string> wanted;
    for_each_view(Transformer::entries(config), [&](const auto&, const ParameterView& view) {
      if (!group.has(view.name)) refuse_weights(file, "lacks the tensor '" + view.name + "'");
      group.refuse_external_link(view.name);
      const hdf5::Dataset dataset = group.dataset(view.name);
      const hdf5::Dims shape = dims_of(view.shape);
      if (dataset.dims() != shape) {
        refuse_weights(file, fmt::format("holds '{}' as [{}]; the model needs [{}]", view.name,
                                         fmt::join(dataset.dims(), ", "), fmt::join(shape, ", ")));
      }
      if (dataset.type_class() != H5T_FLOAT) {
        refuse_weights(file, "holds '" + view.name + "' in a dtype that is not floating-point");
      }
      dataset.require_readable();
      wanted.insert(view.name);
    });
    for (const std::string& name : group.names()) {
      if (!wanted.contains(name))
        refuse_weights(file, "holds '" + name + "', which the model does not have");
    }
  });
}

std::uint64_t load_weights(Device& device, Ops& ops, ParameterStore& store,
                           const std::filesystem::path& file) {
  Fnv1a bits;
  read_weights(file, [&](const hdf5::Group& group) {
    for_each_view(store.entries(), [&](const ParameterEntry& entry, const ParameterView& view) {
      const std::vector<float> values = group.dataset(view.name).read<float>();
      for (const float value : values) bits.add(std::bit_cast<std::uint32_t>(value));
      for_each_part(store, entry, view, [&](std::int64_t first, const Tensor& x) {
        put_floats(device, x,
                   std::span(values).subspan(static_cast<std::size_t>(first),
                                             static_cast<std::size_t>(x.numel())));
      });
    });
  });
  store.refresh_copy(ops);
  return bits.sum();
}

Dump::Dump(Device& device, const ModelConfig& config, std::int64_t batch)
    : device_(device),
      logits_(device.allocate({batch, config.context, config.vocab}, Dtype::f32,
                              MemoryKind::workspace)) {}

void Dump::check_writable(const std::filesystem::path& file, bool replace) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  if (!std::filesystem::status_known(status)) {
    throw UsageError(fmt::format("--dump: cannot write {} ({}); name another file", file.string(),
                                 error.message()));
  }
  const bool exists = std::filesystem::exists(status);
  if (exists && !std::filesystem::is_regular_file(status)) {
    throw UsageError("--dump: " + file.string() + " is a folder or a device; name a file");
  }
  if (exists && !replace) {
    throw UsageError("--dump: " + file.string() + " exists; --force replaces it");
  }
  const std::filesystem::path probe = temporary_of(target_of(file));
  const int descriptor = open(probe.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    throw UsageError(
        fmt::format("--dump: cannot write {} ({}); name a file in a folder that exists",
                    file.string(), std::generic_category().message(errno)));
  }
  close(descriptor);
  std::filesystem::remove(probe);
}

void Dump::take_first_step(const StepState& state) {
  first_logits_ = get_floats(device_, logits_);
  loss_ = get_floats(device_, state.loss).front();
  gradient_scale_ = static_cast<float>(state.get(device_, StepScalar::gradient_scale));
}

void Dump::write(const std::filesystem::path& file) {
  for (NamedValues& t : gradients_) {
    for (float& g : t.values) g *= gradient_scale_;
  }
  const hdf5::File h5 = hdf5::File::in_memory();
  h5.write<float>("logits", first_logits_, dims_of(logits_.shape()));
  h5.write<double>("loss", std::span<const double>(&loss_, 1), {1});
  for (const auto& [name, tensors] :
       {std::pair{"gradients", &gradients_}, std::pair{"weights", &weights_}}) {
    if (tensors->empty()) continue;
    const hdf5::Group group = h5.make_group(name);
    for (const NamedValues& t : *tensors) group.write<float>(t.name, t.values, dims_of(t.shape));
  }
  const std::filesystem::path target = target_of(file);
  const std::error_code error = write_whole(target, temporary_of(target), h5.image());
  if (!error) return;
  const std::filesystem::path elsewhere = write_elsewhere(target.filename(), h5.image());
  throw StoppedError(fmt::format("--dump: cannot write {}: {}; {}", file.string(), error.message(),
                                 elsewhere.empty() ? "no temporary folder can be written either"
                                                   : "it is in " + elsewhere.string()));
}

}  // namespace paceline
