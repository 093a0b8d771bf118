// SplitRegex on PCRE2: see pretokenizer_regex.h.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pretokenizer_regex.h"

#include <pcre2.h>

#include <algorithm>
#include <array>
#include <string>

#include "text/unicode.h"

namespace boreas {

const std::string_view kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const std::string_view kDigitGroupPattern = R"(\d{1,3}(?=(?:\d{3})*\b))";
const std::string_view kWordPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

namespace {

// Qwen 2 and 3.
constexpr std::string_view kQwenPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr size_t kJitStackBytes = 32 * 1024;
constexpr size_t kJitStackBytesMax = 1024 * 1024;

// Every alternative of these takes a run whole, so the work is linear in the text (checked on 1 MB of each run).
bool is_known_linear(std::string_view pattern) {
  return pattern == kGpt2Pattern || pattern == kWordPattern || pattern == kQwenPattern;
}

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

// True if `text` has more than kDigitRunMax decimal digits in a row.
bool has_long_digit_run(std::string_view text) {
  size_t run = 0;
  for (size_t offset = 0; offset < text.size();) {
    run = is_decimal_digit(next_code_point(text, offset)) ? run + 1 : 0;
    if (run > kDigitRunMax) return true;
  }
  return false;
}

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};

}  // namespace

struct RegexScratch::Impl {
  std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free>> match_data{pcre2_match_data_create(1, nullptr)};
  std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context_free>> context{pcre2_match_context_create(nullptr)};
  std::unique_ptr<pcre2_jit_stack, Deleter<pcre2_jit_stack_free>> stack{
      pcre2_jit_stack_create(kJitStackBytes, kJitStackBytesMax, nullptr)};
};

RegexScratch::RegexScratch() : impl_(std::make_unique<Impl>()) {
  CHECK(impl_->match_data != nullptr);
  CHECK(impl_->context != nullptr);
  // Without a stack of its own (no JIT on this machine) PCRE2 uses the default one.
  if (impl_->stack != nullptr) pcre2_jit_stack_assign(impl_->context.get(), nullptr, impl_->stack.get());
}

RegexScratch::~RegexScratch() = default;

struct SplitRegex::Impl {
  std::unique_ptr<pcre2_code, Deleter<pcre2_code_free>> code;
  bool linear = false;
};

Result<SplitRegex> SplitRegex::compile(std::string_view pattern) {
  ASSIGN_OR_RETURN(const std::string translated, translate_pattern(pattern));
  int code = 0;
  PCRE2_SIZE offset = 0;
  auto impl = std::make_shared<Impl>();
  impl->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                 PCRE2_UTF | PCRE2_UCP, &code, &offset, nullptr));
  if (impl->code == nullptr) return Error{"regex: " + pcre2_message(code)};
  uint32_t matches_empty = 0;
  pcre2_pattern_info(impl->code.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty);
  if (matches_empty != 0) return Error{"regex: it can match the empty string"};
  impl->linear = is_known_linear(pattern);
  pcre2_jit_compile(impl->code.get(), PCRE2_JIT_COMPLETE);  // a failure leaves the interpreter, which is slower
  return SplitRegex(std::move(impl));
}

Status SplitRegex::split(std::string_view piece, RegexScratch& scratch, std::vector<std::string_view>& out) const {
  if (!impl_->linear && has_long_digit_run(piece)) {
    return Error{"the text has more than " + std::to_string(kDigitRunMax) +
                 " digits in a row, too many for this tokenizer's regex"};
  }
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(piece.data());
  pcre2_match_data* match_data = scratch.impl_->match_data.get();
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match_data);
  size_t done = 0;  // bytes of `piece` already in `out`
  while (done < piece.size()) {
    const int code = pcre2_match(impl_->code.get(), subject, piece.size(), done, PCRE2_NO_UTF_CHECK, match_data,
                                 scratch.impl_->context.get());
    if (code == PCRE2_ERROR_NOMATCH) break;
    if (code < 0) return Error{"the text is too hard for this tokenizer's regex: " + pcre2_message(code)};
    CHECK(ends[0] >= done);
    CHECK(ends[1] > ends[0]);
    if (ends[0] > done) out.push_back(piece.substr(done, ends[0] - done));
    out.push_back(piece.substr(ends[0], ends[1] - ends[0]));
    done = ends[1];
  }
  if (done < piece.size()) out.push_back(piece.substr(done));
  return Ok{};
}

}  // namespace boreas
