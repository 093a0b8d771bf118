// The header of a .safetensors file, checked to the last byte (safetensors.h).
//
// The JSON is read as a stream of events, not into a tree: a hostile header of 100 MB stops at the first thing that
// does not belong, duplicate names are seen, and a real header of 18,730 tensors costs a few milliseconds.
#include <algorithm>
#include <array>
#include <boost/json/basic_parser_impl.hpp>
#include <unordered_set>
#include <utility>

#include "model/quote.h"
#include "model/safetensors.h"

namespace boreas {
namespace {

constexpr uint64_t kHeaderBytesMax = 100'000'000;  // the limit of the reference implementation
constexpr size_t kNameBytesMax = 4096;
constexpr size_t kRankMax = 8;
constexpr size_t kTensorsMax = 1'000'000;

constexpr std::array<std::pair<std::string_view, Dtype>, 15> kDtypes = {{
    {"BF16", Dtype::kBF16},
    {"F16", Dtype::kF16},
    {"F32", Dtype::kF32},
    {"F64", Dtype::kF64},
    {"I8", Dtype::kI8},
    {"U8", Dtype::kU8},
    {"I16", Dtype::kI16},
    {"I32", Dtype::kI32},
    {"I64", Dtype::kI64},
    {"BOOL", Dtype::kBool},
    {"F8_E4M3", Dtype::kF8E4M3},
    {"F8_E5M2", Dtype::kF8E5M2},
    {"U16", Dtype::kU16},
    {"U32", Dtype::kU32},
    {"U64", Dtype::kU64},
}};

// Receives the parser's events. The JSON has a fixed form, so `place_` says what may come next:
//   { "__metadata__": {"key": "text", ...}, "<tensor>": {"dtype": "BF16", "shape": [..], "data_offsets": [begin, end]}
//   }
class HeaderHandler {
 public:
  using Code = boost::json::error_code;
  using Text = boost::json::string_view;
  static constexpr size_t max_object_size = kTensorsMax;
  static constexpr size_t max_array_size = kRankMax;
  static constexpr size_t max_key_size = kNameBytesMax;
  static constexpr size_t max_string_size = kHeaderBytesMax;

  std::vector<SafetensorsEntry> take_entries() { return std::move(entries_); }
  const std::string& problem() const { return problem_; }

  bool on_document_begin(Code&) { return true; }
  bool on_document_end(Code&) { return true; }
  bool on_comment_part(Text, Code&) { return true; }
  bool on_comment(Text, Code&) { return true; }

  bool on_object_begin(Code& code) {
    switch (place_) {
      case Place::kStart:
        place_ = Place::kNames;
        return true;
      case Place::kNameValue:
        place_ = in_metadata_ ? Place::kMetadataKeys : Place::kFields;
        return true;
      default:
        return fail(code, "an object where " + expected());
    }
  }

  bool on_object_end(size_t, Code& code) {
    if (place_ == Place::kFields && !finish_entry(code)) return false;
    place_ = place_ == Place::kNames ? Place::kEnd : Place::kNames;
    in_metadata_ = false;
    return true;
  }

  bool on_array_begin(Code& code) {
    if (in_list_ || (place_ != Place::kShape && place_ != Place::kOffsets))
      return fail(code, "a list where " + expected());
    in_list_ = true;
    return true;
  }

  bool on_array_end(size_t, Code&) {
    in_list_ = false;
    place_ = Place::kFields;
    return true;
  }

  bool on_key_part(Text text, size_t, Code&) {
    text_.append(text.data(), text.size());
    return true;
  }

  bool on_key(Text text, size_t, Code& code) {
    text_.append(text.data(), text.size());
    const std::string key = std::exchange(text_, {});
    if (place_ == Place::kNames) return begin_entry(key, code);
    if (place_ == Place::kMetadataKeys) {
      place_ = Place::kMetadataValue;
      return true;
    }
    return begin_field(key, code);
  }

  bool on_string_part(Text text, size_t, Code& code) {
    if (place_ == Place::kDtype) text_.append(text.data(), std::min(text.size(), kNameBytesMax));
    return place_ == Place::kDtype || place_ == Place::kMetadataValue || fail(code, "a string where " + expected());
  }

  bool on_string(Text text, size_t size, Code& code) {
    if (!on_string_part(text, size, code)) return false;
    if (place_ == Place::kMetadataValue) {
      place_ = Place::kMetadataKeys;
      return true;
    }
    const std::string name = std::exchange(text_, {});
    for (const auto& [known, dtype] : kDtypes) {
      if (name != known) continue;
      entries_.back().dtype = dtype;
      place_ = Place::kFields;
      return true;
    }
    return fail(code, "the unknown dtype " + quote(name));
  }

  bool on_number_part(Text, Code&) { return true; }
  bool on_int64(int64_t value, Text, Code& code) { return on_number(value, code); }
  bool on_uint64(uint64_t, Text, Code& code) { return fail(code, "a number above 2^63"); }
  bool on_double(double, Text, Code& code) { return fail(code, "a fraction where " + expected()); }
  bool on_bool(bool, Code& code) { return fail(code, "a boolean where " + expected()); }
  bool on_null(Code& code) { return fail(code, "null where " + expected()); }

 private:
  enum class Place {
    kStart,
    kNames,
    kNameValue,
    kFields,
    kDtype,
    kShape,
    kOffsets,
    kMetadataKeys,
    kMetadataValue,
    kEnd
  };

  std::string expected() const {
    switch (place_) {
      case Place::kStart:
      case Place::kNameValue:
        return "an object is expected";
      case Place::kDtype:
        return "dtype is expected, a string";
      case Place::kShape:
        return "shape is expected, a list of integers";
      case Place::kOffsets:
        return "data_offsets is expected, a list of two integers";
      case Place::kMetadataValue:
        return "a string is expected";
      default:
        return "none is expected";
    }
  }

  bool fail(Code& code, const std::string& what) {
    problem_ = "the header holds " + what;
    if (place_ == Place::kMetadataKeys || place_ == Place::kMetadataValue || in_metadata_) {
      problem_ += " (in __metadata__)";
    } else if (!entries_.empty()) {
      problem_ += " (tensor " + quote(entries_.back().name) + ")";
    }
    code = boost::json::error::syntax;
    return false;
  }

  bool begin_entry(const std::string& name, Code& code) {
    place_ = Place::kNameValue;
    if (name == "__metadata__") {
      in_metadata_ = true;
      if (!std::exchange(saw_metadata_, true)) return true;
      return fail(code, "__metadata__ twice");
    }
    if (entries_.size() >= kTensorsMax) return fail(code, "more than " + std::to_string(kTensorsMax) + " tensors");
    entries_.emplace_back();
    entries_.back().name = name;
    fields_seen_ = 0;
    offsets_.clear();
    return names_.insert(name).second || fail(code, "one tensor name twice");
  }

  bool begin_field(const std::string& key, Code& code) {
    constexpr std::array<std::pair<std::string_view, Place>, 3> kFields = {
        {{"dtype", Place::kDtype}, {"shape", Place::kShape}, {"data_offsets", Place::kOffsets}}};
    for (size_t i = 0; i < kFields.size(); ++i) {
      if (key != kFields[i].first) continue;
      if ((fields_seen_ >> i & 1u) != 0) return fail(code, "the field " + key + " twice");
      fields_seen_ |= 1u << i;
      place_ = kFields[i].second;
      return true;
    }
    return fail(code, "the unknown field " + quote(key));
  }

  bool on_number(int64_t value, Code& code) {
    if (!in_list_) return fail(code, "a number where " + expected());
    if (value < 0) return fail(code, "the negative number " + std::to_string(value));
    if (place_ == Place::kShape) {
      entries_.back().shape.push_back(value);
    } else {
      offsets_.push_back(static_cast<uint64_t>(value));
    }
    return true;
  }

  bool finish_entry(Code& code) {
    if (fields_seen_ != 7) return fail(code, "a tensor without all of dtype, shape and data_offsets");
    if (offsets_.size() != 2) return fail(code, std::to_string(offsets_.size()) + " data_offsets; expected 2");
    entries_.back().begin = offsets_[0];
    entries_.back().end = offsets_[1];
    return true;
  }

  std::vector<SafetensorsEntry> entries_;
  std::unordered_set<std::string> names_;
  std::vector<uint64_t> offsets_;
  std::string text_;  // parts of a key or string seen so far
  std::string problem_;
  Place place_ = Place::kStart;
  unsigned fields_seen_ = 0;  // bit 0 dtype, 1 shape, 2 data_offsets
  bool in_metadata_ = false;
  bool saw_metadata_ = false;
  bool in_list_ = false;
};

Result<std::vector<SafetensorsEntry>> parse_entries(std::string_view json, const std::string& label) {
  boost::json::parse_options options;
  options.max_depth = 4;  // document, tensor, list: three levels
  boost::json::basic_parser<HeaderHandler> parser(options);
  boost::json::error_code code;
  const size_t used = parser.write_some(false, json.data(), json.size(), code);
  if (code) {
    const std::string& problem = parser.handler().problem();
    if (!problem.empty()) return Error{label + ": " + problem};
    return Error{label + ": the header is not valid JSON near byte " + std::to_string(used) + ": " + code.message()};
  }
  // Writers may pad the header with blanks.
  if (json.find_first_not_of(" \t\r\n", used) != std::string_view::npos) {
    return Error{label + ": the header has bytes after its JSON object"};
  }
  return parser.handler().take_entries();
}

// Bytes of a tensor by its shape and dtype; false on overflow.
bool shape_bytes(const SafetensorsEntry& entry, uint64_t& bytes) {
  bytes = dtype_bytes(entry.dtype);
  bool overflow = false;
  bool has_zero = false;
  for (const int64_t extent : entry.shape) {
    has_zero = has_zero || extent == 0;
    overflow = __builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes) || overflow;
  }
  if (has_zero) bytes = 0;
  return has_zero || !overflow;
}

// Each range fits its shape, and together they cover the data exactly: sorted by position, each starts where the one
// before ends. That excludes overlaps, holes and bytes outside the file.
Status check_ranges(std::vector<SafetensorsEntry>& entries, uint64_t data_bytes, const std::string& label) {
  std::sort(entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t covered = 0;
  for (const SafetensorsEntry& entry : entries) {
    const std::string range = label + ": tensor " + quote(entry.name) + " has data_offsets [" +
                              std::to_string(entry.begin) + ", " + std::to_string(entry.end) + "]";
    uint64_t bytes = 0;
    if (!shape_bytes(entry, bytes)) {
      return Error{label + ": tensor " + quote(entry.name) + " has shape " + shape_text(entry.shape) +
                   ", whose size does not fit 64 bits"};
    }
    if (entry.begin > entry.end) return Error{range + "; expected them to ascend"};
    if (entry.end > data_bytes) {
      return Error{range + ", but the file holds " + std::to_string(data_bytes) + " bytes of tensor data (truncated?)"};
    }
    if (entry.end - entry.begin != bytes) {
      return Error{range + "; expected " + std::to_string(bytes) + " bytes for shape " + shape_text(entry.shape) +
                   " of " + std::string(dtype_name(entry.dtype))};
    }
    if (entry.begin < covered) return Error{range + ", which overlaps the tensor before it"};
    if (entry.begin > covered) {
      return Error{range + ", which leaves a hole of " + std::to_string(entry.begin - covered) + " bytes before it"};
    }
    covered = entry.end;
  }
  if (covered != data_bytes) {
    return Error{label + ": " + std::to_string(data_bytes - covered) + " bytes at the end belong to no tensor"};
  }
  return Ok{};
}

}  // namespace

std::string_view dtype_name(Dtype dtype) {
  for (const auto& [name, known] : kDtypes) {
    if (known == dtype) return name;
  }
  return "?";
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "[";
  for (const int64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

Result<SafetensorsHeader> parse_safetensors_header(std::span<const uint8_t> start, uint64_t file_bytes,
                                                   const std::string& label) {
  if (start.size() < 8 || file_bytes < 8) {
    return Error{label + " has " + std::to_string(file_bytes) +
                 " bytes; expected a safetensors file, which starts with an 8-byte header size"};
  }
  uint64_t header_bytes = 0;
  for (size_t i = 0; i < 8; ++i) header_bytes |= uint64_t{start[i]} << (8 * i);
  if (header_bytes > kHeaderBytesMax) {
    return Error{label + ": the header size is " + std::to_string(header_bytes) + " bytes; expected at most " +
                 std::to_string(kHeaderBytesMax)};
  }
  if (header_bytes > file_bytes - 8 || header_bytes > start.size() - 8) {
    return Error{label + ": the header size is " + std::to_string(header_bytes) + " bytes, but the file has only " +
                 std::to_string(file_bytes) + " bytes (truncated?)"};
  }
  const std::string_view json(reinterpret_cast<const char*>(start.data()) + 8, header_bytes);
  if (json.empty() || json.front() != '{') return Error{label + ": the header does not start with '{'"};
  SafetensorsHeader header;
  header.data_offset = 8 + header_bytes;
  ASSIGN_OR_RETURN(header.entries, parse_entries(json, label));
  RETURN_IF_ERROR(check_ranges(header.entries, file_bytes - header.data_offset, label));
  return header;
}

}  // namespace boreas
