#include "record/hdf5.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace paceline::hdf5 {

namespace {

// HDF5 prints its error stack unless told not to; we throw its essence.
void silence() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

Handle string_type() {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose, "H5Tcopy");
  check(H5Tset_size(type.id(), H5T_VARIABLE), "H5Tset_size");
  check(H5Tset_cset(type.id(), H5T_CSET_UTF8), "H5Tset_cset");
  return type;
}

// The enumeration that h5py reads and writes as bool.
Handle bool_type() {
  Handle type(H5Tenum_create(H5T_NATIVE_INT8), H5Tclose, "H5Tenum_create");
  std::int8_t value = 0;
  check(H5Tenum_insert(type.id(), "FALSE", &value), "H5Tenum_insert");
  value = 1;
  check(H5Tenum_insert(type.id(), "TRUE", &value), "H5Tenum_insert");
  return type;
}

// A list of creation properties whose groups remember the order of their members.
Handle ordered(hid_t property_class) {
  Handle list(H5Pcreate(property_class), H5Pclose, "H5Pcreate");
  check(H5Pset_link_creation_order(list.id(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED),
        "H5Pset_link_creation_order");
  return list;
}

Handle scalar_space() { return {H5Screate(H5S_SCALAR), H5Sclose, "H5Screate"}; }

Handle simple_space(const Dims& dims) {
  return {H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr), H5Sclose,
          "H5Screate_simple"};
}

// The parts of "a/b/c": "a", "a/b", "a/b/c".
std::vector<std::string> prefixes(const std::string& path) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at != std::string::npos;) {
    at = path.find('/', at + 1);
    out.push_back(path.substr(0, at));
  }
  return out;
}

// Takes over a C string that HDF5 allocated.
std::string adopt(char* text) {
  std::string out = text == nullptr ? "" : text;
  H5free_memory(text);
  return out;
}

void write_attribute(hid_t object, const std::string& name, hid_t type, const void* value) {
  if (check(H5Aexists(object, name.c_str()), "H5Aexists") > 0) {
    check(H5Adelete(object, name.c_str()), "H5Adelete");
  }
  const Handle space = scalar_space();
  const Handle attribute(
      H5Acreate2(object, name.c_str(), type, space.id(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
      "H5Acreate2");
  check(H5Awrite(attribute.id(), type, value), "H5Awrite");
}

// Reads a name into a string by a call that answers with its length when given no buffer.
std::string name_from(const std::function<ssize_t(char*, std::size_t)>& call,
                      std::string_view call_name) {
  const ssize_t length = check(call(nullptr, 0), call_name);
  std::string name(static_cast<std::size_t>(length), '\0');
  check(call(name.data(), name.size() + 1), call_name);
  return name;
}

herr_t keep_innermost(unsigned depth, const H5E_error2_t* error, void* message) {
  if (depth == 0) *static_cast<std::string*>(message) = error->desc;
  return 0;
}

}  // namespace

void throw_error(std::string_view call) {
  std::string message;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_innermost, &message);
  H5Eclear2(H5E_DEFAULT);
  throw Hdf5Error(fmt::format("{}: {}", call, message.empty() ? "failed" : message));
}

template <>
hid_t native_type<double>() {
  return H5T_NATIVE_DOUBLE;
}
template <>
hid_t native_type<float>() {
  return H5T_NATIVE_FLOAT;
}
template <>
hid_t native_type<std::int64_t>() {
  return H5T_NATIVE_INT64;
}
template <>
hid_t native_type<std::int32_t>() {
  return H5T_NATIVE_INT32;
}
template <>
hid_t native_type<std::uint16_t>() {
  return H5T_NATIVE_UINT16;
}

void Object::set_attribute(const std::string& name, const Attribute& value) const {
  if (const auto* text = std::get_if<std::string>(&value)) {
    const char* characters = text->c_str();
    write_attribute(id(), name, string_type().id(), static_cast<const void*>(&characters));
  } else if (const auto* flag = std::get_if<bool>(&value)) {
    const std::int8_t byte = *flag ? 1 : 0;
    write_attribute(id(), name, bool_type().id(), &byte);
  } else if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    write_attribute(id(), name, H5T_NATIVE_INT64, integer);
  } else {
    write_attribute(id(), name, H5T_NATIVE_DOUBLE, &std::get<double>(value));
  }
}

bool Object::has_attribute(const std::string& name) const {
  return check(H5Aexists(id(), name.c_str()), "H5Aexists") > 0;
}

Attribute Object::attribute(const std::string& name) const {
  const Handle attribute(H5Aopen(id(), name.c_str(), H5P_DEFAULT), H5Aclose, "H5Aopen");
  const Handle space(H5Aget_space(attribute.id()), H5Sclose, "H5Aget_space");
  const Handle stored(H5Aget_type(attribute.id()), H5Tclose, "H5Aget_type");
  const auto read = [&](hid_t type, void* into) {
    check(H5Aread(attribute.id(), type, into), "H5Aread");
  };
  if (check(H5Sget_simple_extent_npoints(space.id()), "H5Sget_simple_extent_npoints") != 1) {
    throw Hdf5Error(fmt::format("attribute '{}' does not hold one value", name));
  }
  switch (H5Tget_class(stored.id())) {
    case H5T_INTEGER: {
      std::int64_t value = 0;
      read(H5T_NATIVE_INT64, &value);
      return value;
    }
    case H5T_FLOAT: {
      double value = 0;
      read(H5T_NATIVE_DOUBLE, &value);
      return value;
    }
    case H5T_ENUM: {
      std::int8_t value = 0;
      read(bool_type().id(), &value);
      return value != 0;
    }
    case H5T_STRING: {
      char* value = nullptr;
      read(string_type().id(), static_cast<void*>(&value));
      return adopt(value);
    }
    default: throw Hdf5Error(fmt::format("attribute '{}' has a type that is not ours", name));
  }
}

std::string Object::text_attribute(const std::string& name) const {
  if (!has_attribute(name)) return "";
  const Attribute value = attribute(name);
  const auto* text = std::get_if<std::string>(&value);
  return text == nullptr ? "" : *text;
}

std::vector<std::string> Object::attribute_names() const {
  H5O_info_t info{};  // for a file too, which H5Aget_num_attrs refuses
  check(H5Oget_info2(id(), &info, H5O_INFO_NUM_ATTRS), "H5Oget_info");
  std::vector<std::string> names;
  for (hsize_t i = 0; i < info.num_attrs; ++i) {
    const auto call = [&](char* buffer, std::size_t size) {
      return H5Aget_name_by_idx(id(), ".", H5_INDEX_NAME, H5_ITER_INC, i, buffer, size,
                                H5P_DEFAULT);
    };
    names.push_back(name_from(call, "H5Aget_name_by_idx"));
  }
  return names;
}

Dims Dataset::dims() const {
  const Handle space(H5Dget_space(id()), H5Sclose, "H5Dget_space");
  const int rank = check(H5Sget_simple_extent_ndims(space.id()), "H5Sget_simple_extent_ndims");
  Dims dims(static_cast<std::size_t>(rank));
  check(H5Sget_simple_extent_dims(space.id(), dims.data(), nullptr), "H5Sget_simple_extent_dims");
  return dims;
}

H5T_class_t Dataset::type_class() const {
  const Handle type(H5Dget_type(id()), H5Tclose, "H5Dget_type");
  return H5Tget_class(type.id());
}

std::size_t Dataset::size() const {
  const Dims shape = dims();
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}

void Dataset::read_into(hid_t type, void* values) const {
  if (size() == 0) return;
  check(H5Dread(id(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), "H5Dread");
}

std::vector<std::string> Dataset::read_strings() const {
  std::vector<char*> raw(size(), nullptr);
  read_into(string_type().id(), static_cast<void*>(raw.data()));
  std::vector<std::string> values;
  values.reserve(raw.size());
  for (char* text : raw) values.push_back(adopt(text));
  return values;
}

bool Group::has(const std::string& path) const {
  const auto there = [&](const std::string& part) {
    return check(H5Lexists(id(), part.c_str(), H5P_DEFAULT), "H5Lexists") > 0;
  };
  const std::vector<std::string> parts = prefixes(path);
  return std::all_of(parts.begin(), parts.end(), there);
}

Group Group::group(const std::string& path) const {
  return Group(Handle(H5Gopen2(id(), path.c_str(), H5P_DEFAULT), H5Gclose, "H5Gopen2"));
}

Group Group::make_group(const std::string& path) const {
  for (const std::string& part : prefixes(path)) {
    if (has(part)) continue;
    const Handle properties = ordered(H5P_GROUP_CREATE);
    const Handle made(H5Gcreate2(id(), part.c_str(), H5P_DEFAULT, properties.id(), H5P_DEFAULT),
                      H5Gclose, "H5Gcreate2");
  }
  return group(path);
}

std::vector<std::string> Group::names() const {
  H5G_info_t info{};
  check(H5Gget_info(id(), &info), "H5Gget_info");
  // The root group's properties can be asked for only through a group handle of its own.
  const Handle self(H5Gopen2(id(), ".", H5P_DEFAULT), H5Gclose, "H5Gopen2");
  const Handle properties(H5Gget_create_plist(self.id()), H5Pclose, "H5Gget_create_plist");
  unsigned order = 0;
  check(H5Pget_link_creation_order(properties.id(), &order), "H5Pget_link_creation_order");
  const H5_index_t index =
      (order & H5P_CRT_ORDER_TRACKED) != 0 ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME;
  std::vector<std::string> names;
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    const auto call = [&](char* buffer, std::size_t size) {
      return H5Lget_name_by_idx(id(), ".", index, H5_ITER_INC, i, buffer, size, H5P_DEFAULT);
    };
    names.push_back(name_from(call, "H5Lget_name_by_idx"));
  }
  return names;
}

Dataset Group::dataset(const std::string& path) const {
  return Dataset(Handle(H5Dopen2(id(), path.c_str(), H5P_DEFAULT), H5Dclose, "H5Dopen2"));
}

Dataset Group::write_from(const std::string& name, hid_t type, const void* values,
                          std::size_t count, const Dims& dims) const {
  const std::size_t wanted =
      std::accumulate(dims.begin(), dims.end(), std::size_t{1}, std::multiplies<>());
  if (count != wanted) {
    throw Hdf5Error(fmt::format("dataset '{}': {} values for {} places", name, count, wanted));
  }
  const Handle space = simple_space(dims);
  Dataset dataset(Handle(
      H5Dcreate2(id(), name.c_str(), type, space.id(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
      H5Dclose, "H5Dcreate2"));
  if (count > 0) {
    check(H5Dwrite(dataset.id(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), "H5Dwrite");
  }
  return dataset;
}

Dataset Group::write_strings(const std::string& name,
                             const std::vector<std::string>& values) const {
  std::vector<const char*> raw;
  raw.reserve(values.size());
  for (const std::string& value : values) raw.push_back(value.c_str());
  return write_from(name, string_type().id(), static_cast<const void*>(raw.data()), raw.size(),
                    {raw.size()});
}

void Group::copy_from(const Group& from, const std::string& name) const {
  check(H5Ocopy(from.id(), name.c_str(), id(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT), "H5Ocopy");
}

File File::create(const std::filesystem::path& path) {
  silence();
  const Handle properties = ordered(H5P_FILE_CREATE);
  return File(Handle(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, properties.id(), H5P_DEFAULT), H5Fclose,
                     "H5Fcreate"));
}

File File::open(const std::filesystem::path& path) {
  silence();
  return File(Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose, "H5Fopen"));
}

File File::in_memory() {
  silence();
  const Handle creation = ordered(H5P_FILE_CREATE);
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "H5Pcreate");
  constexpr std::size_t growth = std::size_t{1} << 16U;
  check(H5Pset_fapl_core(access.id(), growth, false), "H5Pset_fapl_core");
  // HDF5 takes two files of one name for the same file.
  const std::string name = fmt::format("in memory {}", access.id());
  return File(Handle(H5Fcreate(name.c_str(), H5F_ACC_TRUNC, creation.id(), access.id()), H5Fclose,
                     "H5Fcreate"));
}

std::string_view File::image() const {
  check(H5Fflush(id(), H5F_SCOPE_GLOBAL), "H5Fflush");
  const ssize_t size = check(H5Fget_file_image(id(), nullptr, 0), "H5Fget_file_image");
  void* handle = nullptr;  // the core driver's: where its pointer to the bytes is
  check(H5Fget_vfd_handle(id(), H5P_DEFAULT, &handle), "H5Fget_vfd_handle");
  return {*static_cast<const char**>(handle), static_cast<std::size_t>(size)};
}

bool File::is_hdf5(const std::filesystem::path& path) {
  silence();
  return H5Fis_hdf5(path.c_str()) > 0;
}

void File::close() { check(H5Fclose(handle().release()), "H5Fclose"); }

}  // namespace paceline::hdf5
