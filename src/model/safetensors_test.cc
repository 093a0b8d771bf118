// The safetensors reader: a good file, and every kind of bad header. Each must be an Error that says what is wrong.
#include "model/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/prng.h"
#include "model/checkpoint_fixture.h"

namespace boreas {
namespace {

using testing::HasSubstr;

Result<SafetensorsHeader> parse(std::string_view json, uint64_t data_bytes) {
  const std::string start = with_header_size(json);
  return parse_safetensors_header({reinterpret_cast<const uint8_t*>(start.data()), start.size()},
                                  start.size() + data_bytes, "x.safetensors");
}

std::string error_of(std::string_view json, uint64_t data_bytes) {
  const Result<SafetensorsHeader> header = parse(json, data_bytes);
  EXPECT_FALSE(header.ok()) << json.substr(0, 200);
  return header.ok() ? "" : header.error().message;
}

TEST(Safetensors, ReadsAFile) {
  const TempDirectory directory;
  const std::string path = directory / "a.safetensors";
  write_safetensors(
      path, {{"first", {2, 3}, std::string("abcdefghijkl")}, {"empty", {0, 5}, ""}, {"scalar", {}, "WXYZ", "F32", 4}});
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  ASSERT_EQ((*file)->entries().size(), 3u);
  const SafetensorsEntry& first = (*file)->entries()[0];
  EXPECT_EQ(first.name, "first");
  EXPECT_EQ(first.dtype, Dtype::kBF16);
  EXPECT_EQ(first.shape, (std::vector<int64_t>{2, 3}));
  const std::span<const uint8_t> bytes = (*file)->bytes(first);
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), "abcdefghijkl");
  EXPECT_EQ((*file)->bytes((*file)->entries()[1]).size(), 0u);
  EXPECT_EQ((*file)->bytes((*file)->entries()[2]).size(), 4u);
}

TEST(Safetensors, KnowsAllDtypeNames) {
  for (const char* name : {"BF16", "F16", "F32", "F64", "I8", "U8", "I16", "I32", "I64", "BOOL", "F8_E4M3", "F8_E5M2",
                           "U16", "U32", "U64"}) {
    const auto header =
        parse(R"({"t": {"dtype": ")" + std::string(name) + R"(", "shape": [0], "data_offsets": [0, 0]}})", 0);
    ASSERT_TRUE(header.ok()) << header.error().message;
    EXPECT_EQ(dtype_name(header->entries[0].dtype), name);
  }
}

TEST(Safetensors, EntriesComeInTheOrderOfTheirBytes) {
  const auto header = parse(
      R"({"b": {"dtype": "U8", "shape": [4], "data_offsets": [2, 6]},
          "a": {"data_offsets": [0, 2], "shape": [1, 2], "dtype": "U8"}})",
      6);
  ASSERT_TRUE(header.ok()) << header.error().message;
  EXPECT_EQ(header->entries[0].name, "a");
  EXPECT_EQ(header->entries[1].name, "b");
}

TEST(Safetensors, BadJsonOrFieldsAreNamed) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {R"({"t": {"dtype": "F4", "shape": [2], "data_offsets": [0, 4]}})", "unknown dtype 'F4'"},
      {R"({"t": {"dtype": 7, "shape": [2], "data_offsets": [0, 4]}})", "dtype is expected"},
      {R"({"t": {"dtype": "BF16", "shape": [-2], "data_offsets": [0, 4]}})", "negative number -2"},
      {R"({"t": {"dtype": "BF16", "shape": [2.5], "data_offsets": [0, 4]}})", "fraction"},
      {R"({"t": {"dtype": "BF16", "shape": ["2"], "data_offsets": [0, 4]}})", "a string where shape is expected"},
      {R"({"t": {"dtype": "BF16", "shape": 2, "data_offsets": [0, 4]}})", "a number where shape is expected"},
      {R"({"t": {"dtype": "BF16", "shape": [[2]], "data_offsets": [0, 4]}})", "a list where shape is expected"},
      {R"({"t": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4, 8]}})", "3 data_offsets; expected 2"},
      {R"({"t": {"dtype": "BF16", "shape": [2], "data_offsets": [0]}})", "1 data_offsets; expected 2"},
      {R"({"t": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 18446744073709551615]}})", "above 2^63"},
      {R"({"t": {"dtype": "BF16", "shape": [2]}})", "without all of dtype, shape and data_offsets"},
      {R"({"t": {"dtype": "BF16", "dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}})", "the field dtype twice"},
      {R"({"t": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4], "order": 1}})", "unknown field 'order'"},
      {R"({"t": [1, 2]})", "a list where an object is expected (tensor 't')"},
      {R"({"t": null})", "null where"},
      {R"({"t": true})", "a boolean where"},
      {R"({"__metadata__": {"format": 3}})", "__metadata__"},
      {R"({"__metadata__": {"format": {"a": "b"}}})", "__metadata__"},
      {R"({"__metadata__": {}, "__metadata__": {}})", "__metadata__ twice"},
      {R"({"t": {"dtype": "U8", "shape": [1,1,1,1,1,1,1,1,4], "data_offsets": [0, 4]}})", "not valid JSON"},
      {R"({"t": )", "not valid JSON"},
      {R"({} {})", "bytes after"},
      {R"( {})", "does not start with '{'"},
      {"{\"\xff\xfe\": 1}", "not valid JSON"},
  };
  for (const auto& [json, message] : cases) EXPECT_THAT(error_of(json, 4), HasSubstr(message)) << json;
}

TEST(Safetensors, DuplicateNamesAreNamed) {
  EXPECT_THAT(error_of(R"({"t": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]},
                           "t": {"dtype": "U8", "shape": [2], "data_offsets": [2, 4]}})",
                       4),
              HasSubstr("one tensor name twice (tensor 't')"));
}

TEST(Safetensors, BadRangesAreNamed) {
  const auto two = [](const char* a, const char* b) {
    return std::string(R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": )") + a +
           R"(}, "b": {"dtype": "U8", "shape": [4], "data_offsets": )" + b + "}}";
  };
  EXPECT_TRUE(parse(two("[0, 4]", "[4, 8]"), 8).ok());
  EXPECT_THAT(error_of(two("[0, 4]", "[2, 6]"), 8), HasSubstr("'b' has data_offsets [2, 6], which overlaps"));
  EXPECT_THAT(error_of(two("[0, 4]", "[0, 4]"), 8), HasSubstr("overlaps"));
  EXPECT_THAT(error_of(two("[0, 4]", "[5, 9]"), 9), HasSubstr("hole of 1 bytes"));
  EXPECT_THAT(error_of(two("[0, 4]", "[4, 8]"), 7), HasSubstr("truncated?"));
  EXPECT_THAT(error_of(two("[0, 4]", "[4, 8]"), 9), HasSubstr("1 bytes at the end belong to no tensor"));
  EXPECT_THAT(error_of(two("[4, 0]", "[4, 8]"), 8), HasSubstr("expected them to ascend"));
  EXPECT_THAT(error_of(two("[0, 4]", "[4, 9223372036854775807]"), 8), HasSubstr("truncated?"));
  EXPECT_THAT(error_of(two("[0, 5]", "[5, 9]"), 9), HasSubstr("expected 4 bytes for shape [4] of U8"));
}

TEST(Safetensors, ShapeProductsThatOverflowAreNamed) {
  EXPECT_THAT(error_of(R"({"t": {"dtype": "BF16", "shape": [4294967296, 4294967296], "data_offsets": [0, 0]}})", 0),
              HasSubstr("does not fit 64 bits"));
  EXPECT_THAT(error_of(R"({"t": {"dtype": "F64", "shape": [2305843009213693952], "data_offsets": [0, 0]}})", 0),
              HasSubstr("does not fit 64 bits"));
  // A zero makes the whole product zero, whatever the rest.
  EXPECT_TRUE(
      parse(
          R"({"t": {"dtype": "F64", "shape": [9223372036854775807, 0, 9223372036854775807], "data_offsets": [0, 0]}})",
          0)
          .ok());
}

TEST(Safetensors, DeepOrHugeHeadersStopEarly) {
  EXPECT_THAT(error_of("{\"t\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}", 0), HasSubstr("list"));
  EXPECT_THAT(error_of("{\"__metadata__\": " + std::string(100'000, '{'), 0), HasSubstr("x.safetensors"));
  EXPECT_THAT(error_of("{\"" + std::string(5000, 'n') + "\": {}}", 0), HasSubstr("not valid JSON"));
  std::string many = R"({"t": {"dtype": "U8", "shape": [)";
  for (int i = 0; i < 100'000; ++i) many += "1,";
  EXPECT_THAT(error_of(many + "1]}}", 0), HasSubstr("not valid JSON"));
}

TEST(Safetensors, NamesInMessagesAreEscaped) {
  EXPECT_THAT(error_of("{\"a\\u0007\\u001b[31m\": 3}", 0), HasSubstr("'a\\x07\\x1b[31m'"));
}

TEST(Safetensors, BrokenFilesAreNamed) {
  const TempDirectory directory;
  const std::string path = directory / "bad.safetensors";
  const auto error = [&](std::string_view content) {
    write_file(path, content);
    const auto file = SafetensorsFile::open(path);
    EXPECT_FALSE(file.ok());
    return file.ok() ? std::string() : file.error().message;
  };
  EXPECT_THAT(error(""), HasSubstr("0 bytes"));
  EXPECT_THAT(error("1234567"), HasSubstr("7 bytes"));
  EXPECT_THAT(error(std::string(8, '\0')), HasSubstr("does not start with '{'"));
  EXPECT_THAT(error(std::string("\x40\0\0\0\0\0\0\0{}", 10)),
              HasSubstr("header size is 64 bytes, but the file has only 10"));
  EXPECT_THAT(error(std::string(8, '\xff') + "{}"), HasSubstr("header size is 18446744073709551615 bytes"));
  EXPECT_THAT(error(std::string("\x01\xe1\xf5\x05\0\0\0\0{}", 10)), HasSubstr("expected at most 100000000"));
  EXPECT_THAT(SafetensorsFile::open(directory / "none").error().message, HasSubstr("cannot be opened"));
  EXPECT_THAT(SafetensorsFile::open(directory.path()).error().message, HasSubstr("not a regular file"));
  ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(SafetensorsFile::open(directory / "pipe").error().message, HasSubstr("not a regular file"));
}

TEST(Safetensors, ATruncatedFileIsSeenBeforeItIsRead) {
  const TempDirectory directory;
  const std::string path = directory / "cut.safetensors";
  write_safetensors(path, {{"a", {64, 64}, ""}, {"b", {64, 64}, ""}});
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_THAT(SafetensorsFile::open(path).error().message, HasSubstr("tensor 'b'"));
}

// Any byte of a good header changed, any cut: an error or a header whose ranges lie inside the file.
TEST(Safetensors, BytesAreReadFromTheFile) {
  const TempDirectory directory;
  const std::string path = directory / "model.safetensors";
  write_safetensors(path, {{"a", {2}, "\x01\x02\x03\x04"}, {"b", {3}, "abcdef"}});
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  const std::span<const uint8_t> b = (*file)->bytes((*file)->entries()[1]);
  const auto offset = (*file)->offset_of(b.data() + 1);
  ASSERT_TRUE(offset.has_value());
  EXPECT_EQ(*offset, (*file)->file_bytes() - 5);
  EXPECT_FALSE((*file)->offset_of(b.data() + b.size()).has_value());
  EXPECT_FALSE((*file)->offset_of(b.data() - *offset - 2).has_value());
  std::vector<std::byte> bytes(5);
  (*file)->expect(*offset, 5);
  ASSERT_TRUE((*file)->read(*offset, bytes).ok());
  EXPECT_EQ(std::memcmp(bytes.data(), "bcdef", 5), 0);
}

TEST(Safetensors, AFileThatIsCutWhileOpenIsAnErrorOfRead) {
  const TempDirectory directory;
  const std::string path = directory / "model.safetensors";
  write_safetensors(path, {{"a", {64, 64}, ""}});
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  const uint64_t whole = (*file)->file_bytes();
  std::filesystem::resize_file(path, whole - 100);
  std::vector<std::byte> bytes(200);
  EXPECT_EQ((*file)->read(whole - 200, bytes).error().message, path + " ends at byte " + std::to_string(whole - 100) +
                                                                   "; it had " + std::to_string(whole) +
                                                                   " bytes when it was opened");
}

TEST(Safetensors, RandomDamageNeverEscapesTheFile) {
  const uint64_t seed = 20240917;
  RecordProperty("seed", std::to_string(seed));
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  Prng prng(seed);
  const std::string good =
      with_header_size(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},)"
                       R"("b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})");
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = good + std::string(16, 'd');
    const uint32_t changes = 1 + prng.below(3);
    for (uint32_t c = 0; c < changes; ++c)
      bytes[prng.below(static_cast<uint32_t>(bytes.size()))] = static_cast<char>(prng.below(256));
    if (prng.below(4) == 0) bytes.resize(prng.below(static_cast<uint32_t>(bytes.size())));
    const auto header =
        parse_safetensors_header({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, bytes.size(), "x");
    if (!header.ok()) continue;
    ++accepted;
    for (const SafetensorsEntry& entry : header->entries) {
      ASSERT_LE(entry.begin, entry.end);
      ASSERT_LE(header->data_offset + entry.end, bytes.size());
    }
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace boreas
