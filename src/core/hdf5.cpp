#include "core/hdf5.h"

#include <fmt/format.h>
#include <hdf5_hl.h>

#include <algorithm>

namespace paceline::hdf5 {

namespace {

Handle string_type() {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose, "H5Tcopy");
  check(H5Tset_size(type.id(), H5T_VARIABLE), "H5Tset_size");
  check(H5Tset_cset(type.id(), H5T_CSET_UTF8), "H5Tset_cset");
  return type;
}

// The enumeration type that h5py uses for bool.
Handle bool_type() {
  Handle type(H5Tenum_create(H5T_NATIVE_INT8), H5Tclose, "H5Tenum_create");
  std::int8_t value = 0;
  check(H5Tenum_insert(type.id(), "FALSE", &value), "H5Tenum_insert");
  value = 1;
  check(H5Tenum_insert(type.id(), "TRUE", &value), "H5Tenum_insert");
  return type;
}

// Creation properties with which groups keep the order of their members.
Handle ordered(hid_t property_class) {
  Handle list(H5Pcreate(property_class), H5Pclose, "H5Pcreate");
  check(H5Pset_link_creation_order(list.id(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED),
        "H5Pset_link_creation_order");
  return list;
}

// By default HDF5 allocates and clears a conversion buffer of 1 MiB for every transfer of strings.
Handle transfer_of(std::size_t elements) {
  constexpr std::size_t element = 32;  // bytes of a string's reference in the file and in memory
  constexpr std::size_t least = 4096;
  constexpr std::size_t most = 1 << 20;
  Handle list(H5Pcreate(H5P_DATASET_XFER), H5Pclose, "H5Pcreate");
  const std::size_t bytes = std::clamp(std::min(elements, most) * element, least, most);
  check(H5Pset_buffer(list.id(), bytes, nullptr, nullptr), "H5Pset_buffer");
  return list;
}

// Long columns, such as a timeline's, are compressed if HDF5 was built with zlib.
Handle layout_of(const Dims& dims) {
  Handle layout(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "H5Pcreate");
  constexpr hsize_t long_column = 4096;
  constexpr hsize_t max_in_chunk = 65536;
  if (dims.size() != 1 || dims[0] < long_column || H5Zfilter_avail(H5Z_FILTER_DEFLATE) <= 0) {
    return layout;
  }
  const hsize_t chunk = std::min(dims[0], max_in_chunk);
  check(H5Pset_chunk(layout.id(), 1, &chunk), "H5Pset_chunk");
  check(H5Pset_shuffle(layout.id()), "H5Pset_shuffle");
  check(H5Pset_deflate(layout.id(), 4), "H5Pset_deflate");
  return layout;
}

Handle core_driver() {
  Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "H5Pcreate");
  constexpr std::size_t growth = std::size_t{1} << 16U;
  check(H5Pset_fapl_core(access.id(), growth, false), "H5Pset_fapl_core");
  return access;
}

// HDF5 takes two files of one name for the same file.
std::string name_in_memory(const Handle& access) {
  return fmt::format("in memory {}", access.id());
}

std::size_t product(const Dims& dims) {
  std::size_t count = 1;
  for (const hsize_t extent : dims) {
    if (__builtin_mul_overflow(count, extent, &count)) {
      throw Hdf5Error("a dataset claims more elements than can be counted");
    }
  }
  return count;
}

// The prefixes of "a/b/c": "a", "a/b", "a/b/c".
std::vector<std::string> prefixes(const std::string& path) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at != std::string::npos;) {
    at = path.find('/', at + 1);
    out.push_back(path.substr(0, at));
  }
  return out;
}

// Takes ownership of a C string that HDF5 allocated.
std::string adopt(char* text) {
  std::string out = text == nullptr ? "" : text;
  H5free_memory(text);
  return out;
}

void write_attribute(hid_t object, const std::string& name, hid_t type, const void* value) {
  if (check(H5Aexists(object, name.c_str()), "H5Aexists") > 0) {
    check(H5Adelete(object, name.c_str()), "H5Adelete");
  }
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose, "H5Screate");
  const Handle attribute(
      H5Acreate2(object, name.c_str(), type, space.id(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
      "H5Acreate2");
  check(H5Awrite(attribute.id(), type, value), "H5Awrite");
}

// Callback for iteration over attributes and links.
constexpr auto add_name = [](hid_t, const char* name, const auto* /*info*/, void* names) -> herr_t {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
};

// The kind of object that an HDF5 call works on, from its name: H5Aopen opens an attribute.
std::string_view object_of(std::string_view call) {
  if (call.starts_with("H5A")) return "an attribute";
  if (call.starts_with("H5D")) return "a dataset";
  if (call.starts_with("H5F")) return "the file";
  return "a group";
}

Handle opened(hid_t id, Handle::Close close, const std::string& path, std::string_view kind) {
  if (id < 0) throw Hdf5Error(fmt::format("'{}' is missing, damaged or not {}", path, kind));
  return {id, close, kind};
}

}  // namespace

void silence() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

void throw_error(std::string_view call) {
  H5Eclear2(H5E_DEFAULT);
  throw Hdf5Error(fmt::format("{} is damaged or not as paceline writes it", object_of(call)));
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
  const Handle attribute =
      opened(H5Aopen(id(), name.c_str(), H5P_DEFAULT), H5Aclose, name, "an attribute");
  const Handle space(H5Aget_space(attribute.id()), H5Sclose, "H5Aget_space");
  const Handle stored(H5Aget_type(attribute.id()), H5Tclose, "H5Aget_type");
  const auto read = [&]<class T>(hid_t type, T value) {
    check(H5Aread(attribute.id(), type, static_cast<void*>(&value)), "H5Aread");
    return value;
  };
  if (check(H5Sget_simple_extent_npoints(space.id()), "H5Sget_simple_extent_npoints") != 1) {
    throw Hdf5Error(fmt::format("attribute '{}' does not hold one value", name));
  }
  switch (H5Tget_class(stored.id())) {
    case H5T_INTEGER: return read(H5T_NATIVE_INT64, std::int64_t{});
    case H5T_FLOAT: return read(H5T_NATIVE_DOUBLE, double{});
    case H5T_ENUM: return read(bool_type().id(), std::int8_t{}) != 0;
    case H5T_STRING: return adopt(read(string_type().id(), static_cast<char*>(nullptr)));
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
  std::vector<std::string> names;
  check(H5Aiterate2(id(), H5_INDEX_NAME, H5_ITER_INC, nullptr, add_name, &names), "H5Aiterate");
  return names;
}

Dims Dataset::dims() const {
  const Handle space(H5Dget_space(id()), H5Sclose, "H5Dget_space");
  const int rank = check(H5Sget_simple_extent_ndims(space.id()), "H5Sget_simple_extent_ndims");
  Dims dims(static_cast<std::size_t>(rank));
  check(H5Sget_simple_extent_dims(space.id(), dims.data(), nullptr), "H5Sget_simple_extent_dims");
  return dims;
}

Handle Dataset::type() const { return {H5Dget_type(id()), H5Tclose, "H5Dget_type"}; }

void Dataset::attach_scale(unsigned dimension, const std::string& name,
                           const Dataset& scale) const {
  if (check(H5DSis_scale(scale.id()), "H5DSis_scale") == 0) {
    check(H5DSset_scale(scale.id(), name.c_str()), "H5DSset_scale");
  }
  check(H5DSattach_scale(id(), scale.id(), dimension), "H5DSattach_scale");
  check(H5DSset_label(id(), dimension, name.c_str()), "H5DSset_label");
}

// Removes the attributes that HDF5's dimension scale specification defines for datasets and scales.
void Dataset::remove_scales() const {
  for (const char* name : {"DIMENSION_LIST", "REFERENCE_LIST"}) {
    if (has_attribute(name)) check(H5Adelete(id(), name), "H5Adelete");
  }
}

std::size_t Dataset::size() const { return product(dims()); }

void Dataset::read_into(hid_t type, void* values) const {
  if (size() == 0) return;
  const Handle transfer = transfer_of(size());
  check_read(H5Dread(id(), type, H5S_ALL, H5S_ALL, transfer.id(), values));
}

void Dataset::read_block(hid_t type, const Dims& first, const Dims& count, void* values) const {
  const Handle selected(H5Dget_space(id()), H5Sclose, "H5Dget_space");
  check(H5Sselect_hyperslab(selected.id(), H5S_SELECT_SET, first.data(), nullptr, count.data(),
                            nullptr),
        "H5Sselect_hyperslab");
  const Handle memory(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr),
                      H5Sclose, "H5Screate_simple");
  const Handle transfer = transfer_of(product(count));
  check_read(H5Dread(id(), type, memory.id(), selected.id(), transfer.id(), values));
}

template <>
std::vector<std::string> Dataset::read<std::string>() const {
  std::vector<char*> raw(size(), nullptr);
  read_into(string_type().id(), static_cast<void*>(raw.data()));
  std::vector<std::string> values(raw.size());
  std::transform(raw.begin(), raw.end(), values.begin(), adopt);
  return values;
}

bool Group::has(const std::string& path) const {
  for (const std::string& part : prefixes(path)) {
    if (check(H5Lexists(id(), part.c_str(), H5P_DEFAULT), "H5Lexists") == 0) return false;
  }
  return true;
}

Group Group::group(const std::string& path) const {
  return Group(opened(H5Gopen2(id(), path.c_str(), H5P_DEFAULT), H5Gclose, path, "a group"));
}

bool Group::is_group(const std::string& name) const {
  const Handle object(H5Oopen(id(), name.c_str(), H5P_DEFAULT), H5Oclose, "H5Oopen");
  return H5Iget_type(object.id()) == H5I_GROUP;
}

void Group::refuse_external_link(const std::string& name) const {
  if (!has(name)) return;
  H5L_info_t info{};
  check(H5Lget_info(id(), name.c_str(), &info, H5P_DEFAULT), "H5Lget_info");
  if (info.type != H5L_TYPE_EXTERNAL) return;
  throw Hdf5Error("it has links to other files: copy them into it");
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
  // H5Gget_create_plist() takes a group handle, not the file's.
  const Handle self(H5Gopen2(id(), ".", H5P_DEFAULT), H5Gclose, "H5Gopen2");
  const Handle properties(H5Gget_create_plist(self.id()), H5Pclose, "H5Gget_create_plist");
  unsigned order = 0;
  check(H5Pget_link_creation_order(properties.id(), &order), "H5Pget_link_creation_order");
  const H5_index_t index =
      (order & H5P_CRT_ORDER_TRACKED) != 0 ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME;
  std::vector<std::string> names;
  check(H5Literate(self.id(), index, H5_ITER_INC, nullptr, add_name, &names), "H5Literate");
  return names;
}

Dataset Group::dataset(const std::string& path) const {
  return Dataset(opened(H5Dopen2(id(), path.c_str(), H5P_DEFAULT), H5Dclose, path, "a dataset"));
}

Dataset Group::write_from(const std::string& name, hid_t type, const void* values,
                          std::size_t count, const Dims& dims) const {
  const std::size_t wanted = product(dims);
  if (count != wanted) {
    throw Hdf5Error(fmt::format("dataset '{}': {} values for {} places", name, count, wanted));
  }
  const Handle space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr),
                     H5Sclose, "H5Screate_simple");
  const Handle layout = layout_of(dims);
  Dataset dataset(Handle(
      H5Dcreate2(id(), name.c_str(), type, space.id(), H5P_DEFAULT, layout.id(), H5P_DEFAULT),
      H5Dclose, "H5Dcreate2"));
  if (count > 0) {
    const Handle transfer = transfer_of(count);
    check(H5Dwrite(dataset.id(), type, H5S_ALL, H5S_ALL, transfer.id(), values), "H5Dwrite");
  }
  return dataset;
}

Dataset Group::write(const std::string& name, const std::vector<std::string>& values) const {
  std::vector<const char*> raw;
  for (const std::string& value : values) raw.push_back(value.c_str());
  return write_from(name, string_type().id(), static_cast<const void*>(raw.data()), raw.size(),
                    {raw.size()});
}

void Group::copy_from(const Group& from, const std::string& name) const {
  check(H5Ocopy(from.id(), name.c_str(), id(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT), "H5Ocopy");
}

void Group::link(const std::string& path, const std::string& name) const {
  check(H5Lcreate_hard(id(), path.c_str(), id(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT),
        "H5Lcreate_hard");
}

File File::in_memory() {
  silence();
  const Handle access = core_driver();
  const Handle properties = ordered(H5P_FILE_CREATE);
  return File(
      Handle(H5Fcreate(name_in_memory(access).c_str(), H5F_ACC_TRUNC, properties.id(), access.id()),
             H5Fclose, "H5Fcreate"));
}

File File::of_image(std::string_view bytes) {
  silence();
  const Handle access = core_driver();
  std::string copy(bytes);  // HDF5 takes a pointer to what it may change
  check(H5Pset_file_image(access.id(), copy.data(), copy.size()), "H5Pset_file_image");
  return File(Handle(H5Fopen(name_in_memory(access).c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose,
                     "H5Fopen"));
}

std::string_view File::image() const {
  check(H5Fflush(id(), H5F_SCOPE_GLOBAL), "H5Fflush");
  const ssize_t size = check(H5Fget_file_image(id(), nullptr, 0), "H5Fget_file_image");
  void* handle = nullptr;  // from the core driver: the address of its pointer to the bytes
  check(H5Fget_vfd_handle(id(), H5P_DEFAULT, &handle), "H5Fget_vfd_handle");
  return {*static_cast<const char**>(handle), static_cast<std::size_t>(size)};
}

bool File::is_hdf5(const std::filesystem::path& path) {
  silence();
  return H5Fis_hdf5(path.c_str()) > 0;
}

}  // namespace paceline::hdf5
