#include <spool/tensor/detail/safetensors_header.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <unordered_set>
#include <utility>

namespace spool::detail {
namespace {

using nlohmann::json;

constexpr std::array<std::pair<std::string_view, Dtype>, 8> dtypes{{{"F32", Dtype::f32},
                                                                    {"F64", Dtype::f64},
                                                                    {"BF16", Dtype::bf16},
                                                                    {"F16", Dtype::f16},
                                                                    {"I32", Dtype::i32},
                                                                    {"I64", Dtype::i64},
                                                                    {"U8", Dtype::u8},
                                                                    {"BOOL", Dtype::boolean}}};
constexpr std::string_view metadata_key = "__metadata__";

/// a·b, or nothing when it does not fit.
std::optional<int64_t> product(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) return {};
  return out;
}

/// Receives the header token by token. A handler that returns false has set `problem`, and the parser stops there.
class Handler : public nlohmann::json_sax<json> {
 public:
  explicit Handler(int64_t data_bytes) : data_bytes_(data_bytes) {}
  SafetensorsHeader header;
  std::string problem;

  bool start_object(size_t) override {
    switch (place_) {
      case Place::outside:
        return go(Place::header);
      case Place::header_value:
        if (key_ == metadata_key) return go(Place::metadata);
        entry_ = {.name = key_};
        has_dtype_ = has_shape_ = has_offsets_ = false;
        return go(Place::tensor);
      default:
        return unexpected("an object");
    }
  }
  bool key(std::string& text) override {
    if (place_ == Place::header) {
      if (!names_.insert(text).second) return refuse("the key ", shown(text), " is given twice");
      key_ = std::move(text);
      return go(Place::header_value);
    }
    if (place_ == Place::metadata) {
      if (header.metadata.contains(text)) return refuse(metadata_key, ": the key ", shown(text), " is given twice");
      metadata_name_ = std::move(text);
      return go(Place::metadata_value);
    }
    return field(text);
  }
  bool end_object() override {
    switch (place_) {
      case Place::tensor:
        return finish_tensor();
      case Place::metadata:
        return go(Place::header);
      default:
        return go(Place::done);
    }
  }
  bool string(std::string& text) override {
    if (place_ == Place::metadata_value) {
      header.metadata.emplace(std::move(metadata_name_), std::move(text));
      return go(Place::metadata);
    }
    if (place_ != Place::dtype) return unexpected("text");
    const auto* it = std::find_if(dtypes.begin(), dtypes.end(), [&](const auto& d) { return d.first == text; });
    if (it == dtypes.end())
      return refuse_tensor("the dtype ", shown(text), " is unknown or not supported; supported are F32 F64 BF16 F16 I32 I64 U8 BOOL");
    entry_.dtype = it->second;
    return go(Place::tensor);
  }
  bool start_array(size_t) override {
    if (place_ == Place::shape) return go(Place::shape_items);
    if (place_ == Place::offsets) return go(Place::offset_items);
    return unexpected("an array");
  }
  bool end_array() override {
    if (place_ == Place::offset_items && offset_count_ != 2) return refuse_tensor("data_offsets needs two numbers, got ", offset_count_);
    return go(Place::tensor);
  }
  bool number_unsigned(uint64_t value) override {
    if (place_ == Place::shape_items) {
      if (value > uint64_t(std::numeric_limits<int64_t>::max()))
        return refuse_tensor("the size ", value, " in its shape does not fit 63 bits");
      if (entry_.shape.size() == max_dims) return refuse_tensor("it has more than ", max_dims, " dimensions");
      entry_.shape.push_back(int64_t(value));
      return true;
    }
    if (place_ != Place::offset_items) return unexpected("a number");
    if (offset_count_ == 2) return refuse_tensor("data_offsets has more than two numbers");
    if (value > uint64_t(data_bytes_)) return refuse_tensor("the offset ", value, " lies behind the ", data_bytes_, " bytes of data");
    offsets_[size_t(offset_count_++)] = int64_t(value);
    return true;
  }
  bool number_integer(int64_t) override { return unexpected("a negative number"); }
  bool number_float(double, const std::string&) override { return unexpected("a number that is not an integer of 64 bits"); }
  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool binary(json::binary_t&) override { return unexpected("binary data"); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return refuse("the header is not valid JSON at byte ", position);
  }

 private:
  enum class Place {
    outside,
    header,
    header_value,
    metadata,
    metadata_value,
    tensor,
    dtype,
    shape,
    shape_items,
    offsets,
    offset_items,
    done
  };

  bool go(Place to) {
    place_ = to;
    return true;
  }
  template <class... Args>
  bool refuse(const Args&... args) {
    problem = concat(args...);
    return false;
  }
  template <class... Args>
  bool refuse_tensor(const Args&... args) {
    return refuse("tensor ", shown(entry_.name), ": ", args...);
  }
  bool unexpected(std::string_view what) {
    switch (place_) {
      case Place::header_value:
        return refuse(shown(key_), ": ", what, " where an object is needed");
      case Place::metadata_value:
        return refuse(metadata_key, ": the value of ", shown(metadata_name_), " is ", what, "; values must be text");
      case Place::dtype:
        return refuse_tensor("dtype is ", what, ", not text");
      case Place::shape:
        return refuse_tensor("shape is ", what, ", not an array");
      case Place::shape_items:
        return refuse_tensor(what, " in its shape");
      case Place::offsets:
        return refuse_tensor("data_offsets is ", what, ", not an array");
      default:
        return refuse_tensor(what, " in data_offsets");
    }
  }
  bool field(const std::string& text) {
    bool* seen = nullptr;
    if (text == "dtype")
      seen = &has_dtype_, place_ = Place::dtype;
    else if (text == "shape")
      seen = &has_shape_, place_ = Place::shape;
    else if (text == "data_offsets")
      seen = &has_offsets_, place_ = Place::offsets, offset_count_ = 0;
    else
      return refuse_tensor("unknown field ", shown(text));
    if (std::exchange(*seen, true)) return refuse_tensor("the field ", text, " is given twice");
    return true;
  }
  bool finish_tensor() {
    for (const auto& [has, name] : {std::pair(has_dtype_, "dtype"), {has_shape_, "shape"}, {has_offsets_, "data_offsets"}})
      if (!has) return refuse_tensor("the field ", name, " is missing");
    // Zero sizes count as one, so that strides computed from the shape fit as well.
    std::optional<int64_t> most = int64_t(dtype_size(entry_.dtype));
    bool has_zero = false;
    for (const int64_t size : entry_.shape) {
      if (most) most = product(*most, std::max<int64_t>(size, 1));
      has_zero = has_zero || size == 0;
    }
    if (!most) return refuse_tensor("the bytes of shape ", entry_.shape, " do not fit 63 bits");
    entry_.bytes = has_zero ? 0 : *most;
    entry_.offset = offsets_[0];
    if (offsets_[1] < offsets_[0]) return refuse_tensor("data_offsets [", offsets_[0], ", ", offsets_[1], "] run backwards");
    if (offsets_[1] - offsets_[0] != entry_.bytes) {
      return refuse_tensor("data_offsets [", offsets_[0], ", ", offsets_[1], "] hold ", offsets_[1] - offsets_[0], " bytes, but ",
                           dtype_name(entry_.dtype), entry_.shape, " takes ", entry_.bytes);
    }
    header.entries.push_back(std::move(entry_));
    return go(Place::header);
  }

  int64_t data_bytes_;
  Place place_ = Place::outside;
  std::string key_, metadata_name_;
  std::unordered_set<std::string> names_;
  SafetensorsFile::Entry entry_;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  std::array<int64_t, 2> offsets_{};
  int offset_count_ = 0;
};

/// The tensors must cover the data without holes or overlaps.
void check_cover(const std::string& path, const std::vector<SafetensorsFile::Entry>& entries, int64_t data_bytes) {
  std::vector<size_t> order(entries.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(entries[a].offset, entries[a].bytes) < std::pair(entries[b].offset, entries[b].bytes);
  });
  int64_t end = 0;
  for (const size_t i : order) {
    const auto& entry = entries[i];
    if (entry.offset < end)
      fail<IoError>(path, ": tensor ", shown(entry.name), ": begins at byte ", entry.offset, " inside another tensor, which ends at ", end);
    if (entry.offset > end)
      fail<IoError>(path, ": tensor ", shown(entry.name), ": begins at byte ", entry.offset, ", but bytes ", end, " to ", entry.offset,
                    " belong to no tensor");
    end = entry.offset + entry.bytes;
  }
  if (end != data_bytes) fail<IoError>(path, ": ", data_bytes - end, " bytes at the end of the file belong to no tensor");
}

std::string quoted(const std::string& path, const std::string& text) {
  try {
    return json(text).dump();
  } catch (const json::exception&) {
    fail<IoError>(path, ": ", shown(text), " is not UTF-8; names and metadata must be");
  }
}

}  // namespace

std::string shown(std::string_view name) {
  constexpr size_t longest = 200;
  std::string out = "'";
  for (const char c : name.substr(0, longest)) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return out + (name.size() > longest ? "…'" : "'");
}

SafetensorsHeader parse_safetensors_header(const std::string& path, std::string_view text, int64_t data_bytes) {
  if (!text.starts_with('{')) fail<IoError>(path, ": the header does not begin with '{'; not a safetensors file");
  // The parser takes a zero byte for the end of its input and would not look at what follows.
  if (const auto zero = text.find('\0'); zero != text.npos) fail<IoError>(path, ": the header is not valid JSON at byte ", zero + 1);
  Handler handler(data_bytes);
  if (!json::sax_parse(text.begin(), text.end(), &handler)) fail<IoError>(path, ": ", handler.problem);
  check_cover(path, handler.header.entries, data_bytes);
  return std::move(handler.header);
}

std::string format_safetensors_header(const std::string& path, const SafetensorsHeader& header) {
  std::string text = "{";
  const auto separate = [&] {
    if (text.back() != '{') text += ',';
  };
  if (!header.metadata.empty()) {
    text += concat("\"", metadata_key, "\":{");
    for (const auto& [key, value] : header.metadata) {
      separate();
      text += quoted(path, key) + ':' + quoted(path, value);
    }
    text += '}';
  }
  for (const auto& entry : header.entries) {
    const auto* type = std::find_if(dtypes.begin(), dtypes.end(), [&](const auto& d) { return d.second == entry.dtype; });
    separate();
    text += quoted(path, entry.name) + concat(":{\"dtype\":\"", type->first, "\",\"shape\":[");
    for (int axis = 0; axis < entry.shape.size(); ++axis) text += concat(axis ? "," : "", entry.shape[axis]);
    text += concat("],\"data_offsets\":[", entry.offset, ",", entry.offset + entry.bytes, "]}");
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace spool::detail
