// ChatTemplate: the checkpoint's own chat_template.jinja, rendered by the bounded Jinja engine of jinja/. The server
// loads one per model and renders what formats/chat_format.h prepared.
//
// Output equals Jinja2's under Hugging Face's settings (trim_blocks, lstrip_blocks, loop controls, tojson without HTML
// escapes), byte for byte, for everything the engine supports; anything else is an error of parse(), with line and
// construct. Known differences: whole numbers are limited to 64 bits (beyond that rendering fails), `safe` marks
// nothing, and a filter chain that Jinja would evaluate lazily is evaluated at once.
#pragma once

#include <boost/json.hpp>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace boreas {

// What a template may cost. A template over a limit fails; it never hangs or exhausts memory (live values are bounded
// by 8x output_bytes + 64 MiB).
struct TemplateLimits {
  size_t template_bytes = 1 << 20;
  size_t output_bytes = 16 << 20;
  uint64_t steps = 20'000'000;  // about 2 s
  int depth = 64;               // nested statements and brackets; macros calling macros
};

class ChatTemplate {  // immutable, thread-safe, cheap to copy
 public:
  // The error names line and construct.
  static Result<ChatTemplate> parse(std::string_view source, const TemplateLimits& limits = {});
  // chat_template.jinja of a model directory, else the chat_template string (or the entry named "default") in its
  // tokenizer_config.json. The special tokens of tokenizer_config.json (bos_token, eos_token, pad_token, unk_token ...)
  // become variables of every render.
  static Result<ChatTemplate> load(const std::string& directory);

  // What the template prints for these variables, which win over the special tokens. A raise_exception of the template
  // becomes an Error with its text; other failures name the line.
  Result<std::string> render(const boost::json::object& variables) const;
  // The same with the time that strftime_now() formats, in local time (render() takes the current one).
  Result<std::string> render_at(const boost::json::object& variables, std::time_t now) const;

  // Does the template look into content given as a list of parts? If not, prepare_chat must flatten parts into one
  // string.
  bool reads_content_parts() const;

 private:
  struct State;
  explicit ChatTemplate(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace boreas
