#include "model/weights_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "core/error.h"
#include "core/random.h"
#include "record/hdf5.h"

namespace paceline {

namespace {

// Host values in float to a tensor of the store.
void upload(Device& device, const Tensor& to, const std::vector<float>& values) {
  dispatch_floating(to.dtype, [&]<class T>() {
    std::vector<T> own(values.size());
    std::transform(values.begin(), values.end(), own.begin(),
                   [](float x) { return static_cast<T>(x); });
    device.to_device(to, own.data());
  });
}

std::vector<float> download(Device& device, const Tensor& from) {
  std::vector<float> values(static_cast<std::size_t>(from.numel()));
  dispatch_floating(from.dtype, [&]<class T>() {
    std::vector<T> own(values.size());
    device.to_host(own.data(), from);
    std::transform(own.begin(), own.end(), values.begin(),
                   [](T x) { return static_cast<float>(x); });
  });
  return values;
}

void draw(Ops& ops, const Tensor& x, const ParameterView& view, const Random& random) {
  constexpr double cut = 3;  // standard deviations
  if (view.shape.rank() == 1) {
    ops.fill(x, 1);
    return;
  }
  const bool embedding = view.name == "token_embeddings.weight";
  const double std =
      embedding ? 1 : std::sqrt(2.0 / static_cast<double>(view.shape[0] + view.shape[1]));
  ops.fill_normal(x, random, TruncatedNormal(std, cut * std));
}

template <class F>
void for_each_view(const ParameterStore& store, F&& f) {
  for (const ParameterEntry& entry : store.entries()) {
    for (const ParameterView& view : entry.views) f(entry, view);
  }
}

std::string shape_text(const hdf5::Dims& dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& what) {
  throw UsageError(fmt::format("--load-weights: {} {}", file.string(), what));
}

hdf5::Group weights_group(const hdf5::File& file) {
  return file.group(file.has("weights") ? "weights" : "/");
}

void check_tensors(const std::filesystem::path& path, const hdf5::Group& group,
                   const std::vector<ParameterEntry>& entries) {
  std::set<std::string> wanted;
  for (const ParameterEntry& entry : entries) {
    for (const ParameterView& view : entry.views) {
      if (!group.has(view.name)) fail(path, "lacks the tensor '" + view.name + "'");
      const hdf5::Dataset dataset = group.dataset(view.name);
      hdf5::Dims shape;
      for (int i = 0; i < view.shape.rank(); ++i)
        shape.push_back(static_cast<hsize_t>(view.shape[i]));
      if (dataset.dims() != shape) {
        fail(path, fmt::format("holds '{}' as {}; the model needs {}", view.name,
                               shape_text(dataset.dims()), shape_text(shape)));
      }
      if (dataset.type_class() != H5T_FLOAT) {
        fail(path, "holds '" + view.name + "' in a dtype that is not floating-point");
      }
      wanted.insert(view.name);
    }
  }
  for (const std::string& name : group.names()) {
    if (wanted.count(name) == 0) fail(path, "holds '" + name + "', which the model does not have");
  }
}

}  // namespace

void initialise_weights(Ops& ops, ParameterStore& store, std::uint64_t seed) {
  const Tensor flat = store.parameters();
  std::uint64_t stream = 0;
  for_each_view(store, [&](const ParameterEntry& entry, const ParameterView& view) {
    draw(ops, store.slice(flat, entry, view), view, Random(seed, stream++));
  });
  store.refresh_copy(ops);
}

void check_weights_file(const std::filesystem::path& file, const ModelConfig& config) {
  try {
    const hdf5::File h5 = hdf5::File::open(file);
    check_tensors(file, weights_group(h5), Transformer::entries(config));
  } catch (const Hdf5Error& error) {
    fail(file, std::string("cannot be read: ") + error.what());
  }
}

void load_weights(Device& device, Ops& ops, ParameterStore& store,
                  const std::filesystem::path& file) {
  try {
    const hdf5::File h5 = hdf5::File::open(file);
    const hdf5::Group group = weights_group(h5);
    const Tensor flat = store.parameters();
    for_each_view(store, [&](const ParameterEntry& entry, const ParameterView& view) {
      upload(device, store.slice(flat, entry, view), group.dataset(view.name).read<float>());
    });
  } catch (const Hdf5Error& error) {
    fail(file, std::string("cannot be read: ") + error.what());
  }
  store.refresh_copy(ops);
}

Dump::Dump(Device& device, const ModelConfig& config, std::int64_t batch)
    : device_(device),
      logits_(device.allocate({batch, config.context, config.vocab}, Dtype::f32,
                              MemoryKind::workspace)) {}

void Dump::check_writable(const std::filesystem::path& file, bool replace) {
  const bool exists = std::filesystem::exists(file);
  if (exists && !std::filesystem::is_regular_file(file)) {
    throw UsageError("--dump: " + file.string() + " is a folder or a device; name a file");
  }
  if (exists && !replace) {
    throw UsageError("--dump: " + file.string() + " exists; --force replaces it");
  }
  const std::filesystem::path folder =
      file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  if (!std::filesystem::is_directory(folder) || access(folder.c_str(), W_OK) != 0) {
    throw UsageError("--dump: cannot write in " + folder.string() + "; name a folder that exists");
  }
}

void Dump::take_first_step(const StepState& state, const ParameterStore& store) {
  first_logits_ = download(device_, logits_);
  loss_ = download(device_, state.loss).front();
  const Tensor& gradients = store.gradients();
  if (gradients.empty()) return;
  gradients_ = take(store, gradients);
  const auto unscale = static_cast<float>(state.get(device_, StepScalar::gradient_scale));
  for (Named& gradient : gradients_) {
    for (float& g : gradient.values) g *= unscale;
  }
}

void Dump::take_weights(const ParameterStore& store) { weights_ = take(store, store.parameters()); }

std::vector<Dump::Named> Dump::take(const ParameterStore& store, const Tensor& flat) const {
  std::vector<Named> all;
  for_each_view(store, [&](const ParameterEntry& entry, const ParameterView& view) {
    all.push_back({view.name, view.shape, download(device_, store.slice(flat, entry, view))});
  });
  return all;
}

void Dump::write(const std::filesystem::path& file) const {
  const auto dims = [](const Shape& shape) {
    hdf5::Dims d;
    for (int i = 0; i < shape.rank(); ++i) d.push_back(static_cast<hsize_t>(shape[i]));
    return d;
  };
  try {
    const std::filesystem::path temporary = file.string() + ".tmp";
    hdf5::File h5 = hdf5::File::create(temporary);
    h5.write<float>("logits", first_logits_, dims(logits_.shape()));
    h5.write<double>("loss", std::span<const double>(&loss_, 1), {1});
    for (const auto& [name, tensors] :
         {std::pair{"gradients", &gradients_}, std::pair{"weights", &weights_}}) {
      if (tensors->empty()) continue;
      const hdf5::Group group = h5.make_group(name);
      for (const Named& t : *tensors) group.write<float>(t.name, t.values, dims(t.shape));
    }
    h5.close();
    std::filesystem::rename(temporary, file);
  } catch (const std::runtime_error& error) {  // HDF5's or the file system's
    throw StoppedError(
        fmt::format("--dump: {} cannot be written: {}", file.string(), error.what()));
  }
}

}  // namespace paceline
