#pragma once
// A thin RAII layer over HDF5's C API: handles that close themselves, and calls that throw
// Hdf5Error, which says in plain words what is missing or damaged. Files are made with the default
// library bounds, so that every HDF5 from 1.10 on reads them; groups remember the order in which
// their members were made.

#include <hdf5.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/non_copyable.h"

namespace paceline {

class Hdf5Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace hdf5 {

using Dims = std::vector<hsize_t>;
using Attribute = std::variant<std::int64_t, double, bool, std::string>;

[[noreturn]] void throw_error(std::string_view call);

// The result of an HDF5 call, all of which answer with a negative number when they fail.
template <class T>
T check(T result, std::string_view call) {
  if (result < 0) throw_error(call);
  return result;
}

// An HDF5 id and the function that closes it.
class Handle : NonCopyable {
 public:
  using Close = herr_t (*)(hid_t);

  Handle(hid_t id, Close close, std::string_view call) : id_(check(id, call)), close_(close) {}
  Handle(Handle&& other) noexcept
      : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }

  [[nodiscard]] hid_t id() const { return id_; }
  [[nodiscard]] hid_t release() { return std::exchange(id_, H5I_INVALID_HID); }

 private:
  hid_t id_ = H5I_INVALID_HID;
  Close close_ = nullptr;
};

// The type in memory of a number.
[[nodiscard]] inline hid_t type_of(double /*value*/) { return H5T_NATIVE_DOUBLE; }
[[nodiscard]] inline hid_t type_of(float /*value*/) { return H5T_NATIVE_FLOAT; }
[[nodiscard]] inline hid_t type_of(std::int64_t /*value*/) { return H5T_NATIVE_INT64; }

// What can carry attributes: a group or a dataset.
class Object {
 public:
  explicit Object(Handle handle) : handle_(std::move(handle)) {}

  [[nodiscard]] hid_t id() const { return handle_.id(); }

  void set_attribute(const std::string& name, const Attribute& value) const;
  [[nodiscard]] bool has_attribute(const std::string& name) const;
  [[nodiscard]] Attribute attribute(const std::string& name) const;
  // "" when there is none of this name, or none that is text.
  [[nodiscard]] std::string text_attribute(const std::string& name) const;
  [[nodiscard]] std::vector<std::string> attribute_names() const;  // sorted
  void remove_attribute(const std::string& name) const;            // where there is one

 protected:
  Handle handle_;
};

class Dataset : public Object {
 public:
  using Object::Object;

  [[nodiscard]] Dims dims() const;
  [[nodiscard]] std::size_t size() const;        // the product of them
  [[nodiscard]] H5T_class_t type_class() const;  // H5T_INTEGER, H5T_FLOAT, H5T_STRING, ...
  [[nodiscard]] H5D_layout_t layout() const;
  [[nodiscard]] std::size_t element_size() const;  // bytes in the file
  // Whether its elements lie in other files than this one.
  [[nodiscard]] bool is_in_other_files() const;

  // Names the dimension and attaches `scale` to it: a dataset of the same file, as long as it, that
  // says what its places are. H5Ocopy copies neither, so that a copy's are to be attached anew:
  // what it has of an earlier one is to be removed by remove_scales().
  void attach_scale(unsigned dimension, const std::string& name, const Dataset& scale) const;
  void remove_scales() const;

  // All elements, numbers converted to T by HDF5; rows follow each other. T may be std::string, of
  // strings of variable length only.
  template <class T>
  [[nodiscard]] std::vector<T> read() const {
    std::vector<T> values(size());
    read_into(type_of(T{}), values.data());
    return values;
  }

 private:
  void read_into(hid_t type, void* values) const;
};
template <>
std::vector<std::string> Dataset::read<std::string>() const;

class Group : public Object {
 public:
  using Object::Object;

  // Whether every part of the path "a/b" is there.
  [[nodiscard]] bool has(const std::string& path) const;
  [[nodiscard]] Group group(const std::string& path) const;
  // Makes every part of the path that is missing.
  [[nodiscard]] Group make_group(const std::string& path) const;
  [[nodiscard]] bool is_group(const std::string& name) const;
  [[nodiscard]] bool is_external_link(const std::string& name) const;  // to another file
  // In the order in which they were made, or sorted where a foreign writer kept no order.
  [[nodiscard]] std::vector<std::string> names() const;

  [[nodiscard]] Dataset dataset(const std::string& path) const;
  // Writes a dataset of this shape; `values` holds as many elements, row after row.
  template <class T>
  Dataset write(const std::string& name, std::span<const T> values, const Dims& dims) const {
    return write_from(name, type_of(T{}), values.data(), values.size(), dims);
  }
  template <class T>
  Dataset write(const std::string& name, const std::vector<T>& values) const {
    return write(name, std::span<const T>(values), {values.size()});
  }
  Dataset write(const std::string& name, const std::vector<std::string>& values) const;

  // A deep copy of `from`/`name` under the same name here; the files may differ.
  void copy_from(const Group& from, const std::string& name) const;
  // What lies at `path` gets the name `name` here, too.
  void link(const std::string& path, const std::string& name) const;

 private:
  [[nodiscard]] Dataset write_from(const std::string& name, hid_t type, const void* values,
                                   std::size_t count, const Dims& dims) const;
};

// A file, seen as its root group.
class File : public Group {
 public:
  [[nodiscard]] static File create(const std::filesystem::path& path);   // replaces what is there
  [[nodiscard]] static File open(const std::filesystem::path& path);     // to read
  [[nodiscard]] static bool is_hdf5(const std::filesystem::path& path);  // by its signature
  // A new file that is in memory only.
  [[nodiscard]] static File in_memory();

  // The bytes of a file in memory: those of the same file on a disk. They stay until it changes.
  [[nodiscard]] std::string_view image() const;

  // Throws when what is left cannot be written; the destructor says nothing.
  void close();

 private:
  using Group::Group;
  [[nodiscard]] static File made(const std::string& name, hid_t access);
};

}  // namespace hdf5

}  // namespace paceline
