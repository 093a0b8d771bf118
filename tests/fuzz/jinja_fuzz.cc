// Chat templates and conversations from outside: whatever the bytes, parse, render and prepare_chat end soon, with text
// or an Error. Input: template, NUL, JSON variables; an array instead of an object is also taken as the messages of a
// conversation.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "text/chat_template.h"
#include "text/formats/chat_format.h"
#include "text/unicode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = input.find('\0');
  const std::string_view source = input.substr(0, cut);
  const std::string_view json = cut == std::string_view::npos ? std::string_view() : input.substr(cut + 1);

  boost::json::object variables = {{"s", "text é"},
                                   {"n", 3},
                                   {"x", {1, 2, 3}},
                                   {"d", {{"k", "v"}}},
                                   {"messages", {{{"role", "user"}, {"content", "hi"}}}}};
  const auto parsed_json = boreas::parse_json_exact(json, 64);
  if (parsed_json.ok() && parsed_json->is_object()) variables = parsed_json->get_object();
  if (parsed_json.ok() && parsed_json->is_array()) {
    boreas::ChatRenderOptions options;
    options.markers = {"<|END|>", "<B>"};
    options.keep_parts = source.size() % 2 == 0;
    auto prepared = boreas::prepare_chat(parsed_json->get_array(), {}, {}, options);
    if (prepared.ok()) {
      CHECK(boost::json::serialize(*prepared).find("<|END|>") == std::string::npos);
      variables = std::move(*prepared);
    }
  }
  boreas::TemplateLimits limits;
  limits.output_bytes = 1 << 16;
  limits.steps = 100'000;
  const auto chat_template = boreas::ChatTemplate::parse(source, limits);
  if (!chat_template.ok()) return 0;
  const auto text = chat_template->render_at(variables, 0);
  if (!text.ok()) return 0;
  CHECK(text->size() <= limits.output_bytes);
  CHECK(boreas::find_invalid_utf8(*text) == std::string_view::npos);
  // A second render of the same template is the same: nothing is left over in the shared program.
  const auto again = chat_template->render_at(variables, 0);
  CHECK(again.ok() && *again == *text);
  return 0;
}
